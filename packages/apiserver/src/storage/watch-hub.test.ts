import { describe, expect, it } from "vitest";
import type { StoredObject, StoreEvent } from "./store.ts";
import { createWatchHub, type WatchHub } from "./watch-hub.ts";

const fail = (error: unknown): void => {
  throw error;
};

/** Publishes one event of a ConfigMap and answers how often its key was looked at, which everything that is done for an event does. */
function looksAtOneEvent(hub: WatchHub, revision: number): number {
  let looks = 0;
  const object: StoredObject = {
    get key() {
      looks++;
      return "/configmaps/default/a";
    },
    revision,
    bytes: new Uint8Array(),
    object: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } },
  };
  const event: StoreEvent = { type: "put", revision, object, previous: undefined };
  hub.publish([event]);
  return looks;
}

describe("the watch hub", () => {
  it("does no more for an event when a thousand watch another resource", () => {
    const hub = createWatchHub(fail);
    let told = 0;
    hub.add("/configmaps/default/", 1, () => {
      told++;
    });
    const alone = looksAtOneEvent(hub, 2);
    expect(alone).toBeGreaterThan(0);
    for (let index = 0; index < 1_000; index++) hub.add(`/secrets/n-${index}/`, 1, () => fail(new Error("not its event")));
    expect(looksAtOneEvent(hub, 3)).toBe(alone);
    expect(told).toBe(2);
  });

  it("gives all who watch a resource the same list", () => {
    const hub = createWatchHub(fail);
    const lists = new Set<readonly StoreEvent[]>();
    for (let index = 0; index < 100; index++) hub.add("/configmaps/default/", 1, (events) => lists.add(events));
    looksAtOneEvent(hub, 2);
    expect(lists.size).toBe(1);
  });
});
