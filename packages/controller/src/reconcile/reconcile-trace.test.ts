import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Client, createClient } from "@keelson/client";
import { beforeEach, expect, test } from "vitest";
import { createManager } from "../manager/create-manager.ts";
import { createProbeServer } from "../probes/probe-server.ts";
import { defineController } from "./define-controller.ts";
import { readOf } from "../cache/cache.ts";
import type { ReconcileContext } from "./controller-definition.ts";
import type { Request } from "./result.ts";
import type { ReconcileRecord } from "./reconcile-trace.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { configMapType, robotType } from "../testing/kinds.ts";

let server: FakeApiServer;
let client: Client;
let clock: VirtualClock;

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: server, fieldManager: "test", clock });
});

async function run(
  reconcile: (request: Request, context: ReconcileContext) => Promise<{ requeueAfterMs?: number } | undefined | void>,
  traceLength?: number,
) {
  const controllers = [defineController({ name: "robots", for: robotType, reads: [readOf(configMapType)], reconcile })];
  const manager = createManager({
    client,
    clock,
    controllers,
    name: "test",
    random: () => 0,
    ...(traceLength === undefined ? {} : { traceLength }),
  });
  await manager.start();
  await settle();
  return manager;
}
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await clock.advance(0);
};
const whyOf = (record: ReconcileRecord): string => record.causes.map(({ why }) => why).join(",");

test("a record contains causes, reads, writes and result of a reconcile", async () => {
  const robot = await client.create(robotType, { metadata: { namespace: "a", name: "r" } });
  await using manager = await run(async (request, { cache, client: own, log }) => {
    log.info({}, "reconciling");
    const found = cache.get(robotType, request);
    cache.list(configMapType, { namespace: "a" });
    if (found?.status !== undefined) throw new Error("enough");
    if (found === undefined) return { requeueAfterMs: 50_000 };
    await own.patch(robotType, request, { type: "merge", body: { status: { phase: "Up" } } }, { subresource: "status" });
    await own.create(robotType, { metadata: { namespace: "a", name: "r" } }).catch(() => {});
    await own.delete(configMapType, { namespace: "a", name: "none" }).catch(() => {});
    return { requeueAfterMs: 60_000 };
  });
  const version = robot.metadata.resourceVersion;
  const [first, second] = manager.reconciles();
  expect(first).toMatchObject({
    controller: "robots",
    request: { namespace: "a", name: "r" },
    startedAt: clock.now(),
    durationMs: 0,
    causes: [{ why: "initial", kind: "Robot", namespace: "a", name: "r", resourceVersion: version }],
    reads: [
      { kind: "Robot", live: false, namespace: "a", name: "r", resourceVersion: version },
      { kind: "ConfigMap", live: false, namespace: "a", count: 0 },
    ],
    writes: [
      { verb: "patch", kind: "Robot", namespace: "a", name: "r", resourceVersion: server.version },
      { verb: "create", kind: "Robot", error: expect.stringMatching("exists") },
      { verb: "delete", kind: "ConfigMap", name: "none", error: expect.stringMatching("not found") },
    ],
    result: "requeue_after",
    requeueAfterMs: 60_000,
  });
  expect(second).toMatchObject({ result: "error", error: "enough", writes: [] });
  expect(second && whyOf(second)).toBe("update");
  await clock.advance(5);
  await client.delete(robotType, { namespace: "a", name: "r" });
  await settle();
  await clock.advance(60_000);
  expect(manager.reconciles().map(whyOf)).toEqual(["initial", "update", "retry", "delete", "requeueAfter"]);
  expect(manager.reconciles({ controller: "robots", namespace: "a", name: "r" })).toHaveLength(5);
  expect(manager.reconciles({ name: "other" })).toEqual([]);
});

test("keeps only the newest records in order, and none with length 0", async () => {
  for (const name of ["r1", "r2", "r3"]) await client.create(robotType, { metadata: { namespace: "a", name } });
  for (const [length, names] of [
    [2, ["r2", "r3"]],
    [0, []],
  ] as const) {
    await using manager = await run(async () => {}, length);
    expect(manager.reconciles().map(({ request }) => request.name)).toEqual(names);
  }
});

test("the probe server serves matching records", async () => {
  await client.create(robotType, { metadata: { namespace: "a", name: "r" } });
  await using manager = await run(async () => {});
  await using probes = createProbeServer({ reconciles: manager });
  const url = await probes.listen(0);
  const ask = async (query: string): Promise<unknown> => (await fetch(`${url}/debug/reconciles${query}`)).json();
  expect(await ask("?controller=robots&name=r")).toMatchObject([{ controller: "robots", result: "success" }]);
  expect(await ask("?namespace=b")).toEqual([]);
  await using closed = createProbeServer({});
  expect((await fetch(`${await closed.listen(0)}/debug/reconciles`)).status).toBe(404);
});
