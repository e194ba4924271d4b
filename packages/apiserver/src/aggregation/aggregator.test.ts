import { isJsonObject } from "@keelson/api-machinery";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { textAt } from "../registry/object-fields.ts";
import { systemUser } from "../system-user.ts";
import type { Store } from "../storage/store.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { systemRandom } from "../endpoints/random-source.ts";
import { Aggregator } from "./aggregator.ts";
import { availability } from "./api-service.ts";

let clock: VirtualClock;
let environment: TestEnvironment;
beforeEach(async () => {
  clock = createVirtualClock();
  environment = await startTestEnvironment({ clock });
});
afterEach(() => environment.stop());

const path = "/apis/apiregistration.k8s.io/v1/apiservices";
const name = "v1.broken.example.com";
const key = `apiregistration.k8s.io/apiservices//${name}`;

/** Registers a group version whose Service does not exist, so that checks need no network. */
async function register({ handle }: TestEnvironment): Promise<void> {
  const service = { namespace: "default", name: "none", port: 443 };
  const body = {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name },
    spec: { group: "broken.example.com", version: "v1", groupPriorityMinimum: 2000, versionPriority: 15, service },
  };
  const headers = { "content-type": "application/json" };
  expect(await handle({ method: "POST", path, headers, body, user: systemUser })).toMatchObject({ kind: "object" });
}

/** A store whose writes pass through `write`. */
function storeThrough(store: Store, write: Store["write"]): Store {
  return {
    get revision() {
      return store.revision;
    },
    get: (each) => store.get(each),
    list: (prefix, options) => store.list(prefix, options),
    pin: () => store.pin(),
    pinAt: (prefix, revision) => store.pinAt(prefix, revision),
    watch: (...args) => store.watch(...args),
    close: () => store.close(),
    write,
  };
}

/** Resolves once the APIService has been checked. */
function checked({ store }: TestEnvironment): Promise<void> {
  return new Promise((resolve) => {
    const check = (): void => {
      const condition = availability(store.get(key)?.object);
      if (!isJsonObject(condition) || textAt(condition, "reason") !== "ServiceNotFound") return;
      watch.close();
      resolve();
    };
    const watch = store.watch(key, store.revision, check);
    check();
  });
}

it("checks an APIService again after its status could not be written", async () => {
  const { store, resources } = environment;
  let isBroken = true;
  const broken = storeThrough(store, (each, expected, object) => {
    if (each === key && isBroken) return Promise.reject(new TypeError("the disk is full"));
    return store.write(each, expected, object);
  });
  const failed = createDeferred<unknown>();
  const options = { clock, random: systemRandom, frontProxy: () => ({ certificate: "", key: "" }) };
  const aggregator = new Aggregator({ ...options, onError: failed.resolve });
  await aggregator.connect({ store: broken, resources });
  await register(environment);
  expect(await failed.promise).toMatchObject({ message: "the disk is full" });
  isBroken = false;
  const done = checked(environment);
  await clock.advance(1_000);
  await done;
  await aggregator.close();
});

it("abandons the check of an APIService that was deleted and created again", async () => {
  const { store, resources, handle } = environment;
  const held = createDeferred<void>();
  const reached = createDeferred<void>();
  const expectedRevisions: number[] = [];
  const slow = storeThrough(store, async (each, expected, object) => {
    if (each === key) {
      expectedRevisions.push(expected);
      reached.resolve();
      await held.promise;
    }
    return store.write(each, expected, object);
  });
  const options = { clock, random: systemRandom, frontProxy: () => ({ certificate: "", key: "" }) };
  const aggregator = new Aggregator({ ...options, onError: (error) => expect.fail(String(error)) });
  await aggregator.connect({ store: slow, resources });
  await register(environment);
  await reached.promise;
  await handle({ method: "DELETE", path: `${path}/${name}`, user: systemUser });
  await register(environment);
  held.resolve();
  await checked(environment);
  // A loop that did not end would have written again by the time of this response.
  await handle({ method: "DELETE", path: `${path}/${name}`, user: systemUser });
  await aggregator.close();
  const [first] = expectedRevisions;
  expect(expectedRevisions.filter((each) => each === first)).toHaveLength(1);
});
