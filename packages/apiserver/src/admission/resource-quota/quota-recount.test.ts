import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, expect, it } from "vitest";
import { requestError, sendRequest } from "../../endpoints/testing/send-request.ts";
import { createSeededRandom } from "../../endpoints/random-source.ts";
import { createApiServer } from "../../server.ts";
import { openStore } from "../../storage/open-store.ts";
import type { Store } from "../../storage/store.ts";

const configMaps = "/api/v1/namespaces/limited/configmaps";
const quota = "/api/v1/namespaces/limited/resourcequotas/q";
const exceeded = ["403 Forbidden"];

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A server with a quota of one ConfigMap, where the writes of ConfigMaps named `slow` wait for `commit`, and fail if it rejects. */
async function start() {
  const dir = mkdtempSync(join(tmpdir(), "keelson-quota-"));
  closers.push(() => rmSync(dir, { recursive: true }));
  const clock = createVirtualClock();
  const commit = createDeferred<void>();
  const arrived = createDeferred<void>();
  const store = await openStore({ dir, clock, sync: false });
  const gated: Store = {
    get revision() {
      return store.revision;
    },
    get: (key) => store.get(key),
    list: (...range) => store.list(...range),
    pin: () => store.pin(),
    pinAt: (...state) => store.pinAt(...state),
    watch: (...watch) => store.watch(...watch),
    close: () => store.close(),
    async write(key, ...write) {
      if (key === "/configmaps/limited/slow") {
        arrived.resolve();
        await commit.promise;
      }
      return store.write(key, ...write);
    },
  };
  const server = await createApiServer({ storage: { store: gated }, clock, random: createSeededRandom(1) });
  closers.push(() => server.close());
  await sendRequest(server, "POST", "/api/v1/namespaces", { metadata: { name: "limited" } });
  await sendRequest(server, "POST", `${configMaps.replace("configmaps", "resourcequotas")}`, {
    metadata: { name: "q" },
    spec: { hard: { "count/configmaps": "1" } },
  });
  const used = async (): Promise<unknown> => (await sendRequest(server, "GET", quota)).body["status"]?.used;
  await expect.poll(used).toEqual({ "count/configmaps": "0" });
  /** Lets the recount run that changes before it have scheduled, and waits for its write. */
  const recount = async (ms = 500): Promise<void> => {
    await clock.advance(ms);
    await sendRequest(server, "PATCH", quota, { metadata: { annotations: { after: `${clock.now()}` } } }, "merge");
  };
  const create = (name: string) => requestError(server, "POST", configMaps, { metadata: { name } });
  return { server, clock, commit, arrived, used, recount, create };
}

it("keeps the reservation of an object whose commit is slow", async () => {
  const { commit, arrived, recount, used, create } = await start();
  const slow = create("slow");
  await arrived.promise;
  await recount();
  expect(await used()).toEqual({ "count/configmaps": "1" });
  expect(await create("second")).toEqual(exceeded);
  commit.resolve();
  expect(await slow).toEqual(["201"]);
  await recount();
  expect(await used()).toEqual({ "count/configmaps": "1" });
});

it("releases the reservation when a slow commit fails after a recount", async () => {
  const { clock, commit, arrived, recount, used, create } = await start();
  const slow = create("slow");
  await arrived.promise;
  await recount();
  await clock.advance(60_000);
  commit.reject(new Error("no space"));
  expect((await slow)[0]).toBe("500 InternalError");
  await recount();
  await expect.poll(used).toEqual({ "count/configmaps": "0" });
  expect(await create("second")).toEqual(["201"]);
});

it("releases the usage of deleted objects in a namespace that is never quiet", async () => {
  const { server, clock, used, create } = await start();
  expect(await create("a")).toEqual(["201"]);
  await sendRequest(server, "DELETE", `${configMaps}/a`);
  const secrets = configMaps.replace("configmaps", "secrets");
  await sendRequest(server, "POST", secrets, { metadata: { name: "s" } });
  for (let elapsed = 0; elapsed < 5_000; elapsed += 250) {
    await sendRequest(server, "PATCH", `${secrets}/s`, { stringData: { a: `${elapsed}` } }, "merge");
    await clock.advance(250);
  }
  await expect.poll(used).toEqual({ "count/configmaps": "0" });
});
