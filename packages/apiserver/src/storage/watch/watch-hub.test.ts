import { describe, expect, it } from "vitest";
import type { StoredObject, StoreEvent } from "../store.ts";
import { WatchHub } from "./watch-hub.ts";

const fail = (error: unknown): void => {
  throw error;
};

/** Publishes one event of a ConfigMap and counts the accesses to its key, which all work on an event needs. */
function keyAccesses(hub: WatchHub, revision: number): number {
  let accesses = 0;
  const object: StoredObject = {
    get key() {
      accesses++;
      return "/configmaps/default/a";
    },
    revision,
    bytes: new Uint8Array(),
    object: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } },
  };
  const event: StoreEvent = { type: "put", revision, object, previous: undefined };
  hub.publish([event]);
  return accesses;
}

describe("WatchHub", () => {
  it("does no more work for an event when there are a thousand watchers of another resource", () => {
    const hub = new WatchHub(fail);
    let delivered = 0;
    hub.add("/configmaps/default/", 1, () => {
      delivered++;
    });
    const alone = keyAccesses(hub, 2);
    expect(alone).toBeGreaterThan(0);
    for (let index = 0; index < 1_000; index++) hub.add(`/secrets/n-${index}/`, 1, () => fail(new Error("not its event")));
    expect(keyAccesses(hub, 3)).toBe(alone);
    expect(delivered).toBe(2);
  });

  it("gives all watchers of a resource the same array", () => {
    const hub = new WatchHub(fail);
    const lists = new Set<readonly StoreEvent[]>();
    for (let index = 0; index < 100; index++) hub.add("/configmaps/default/", 1, (events) => lists.add(events));
    keyAccesses(hub, 2);
    expect(lists.size).toBe(1);
  });
});
