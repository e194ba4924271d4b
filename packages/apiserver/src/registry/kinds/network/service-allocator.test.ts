import type { KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import type { StoreEvent, StoredObject } from "../../../storage/store.ts";
import { createServiceAllocator } from "./service-allocator.ts";

function stored(uid: string, spec: object): StoredObject {
  const object = { apiVersion: "v1", kind: "Service", metadata: { name: uid, uid }, spec } as KubernetesObject;
  return { key: `/services/default/${uid}`, revision: 1, bytes: new Uint8Array(), object };
}

function allocatorOf(...items: StoredObject[]) {
  const clock = createVirtualClock();
  let tell: (events: readonly StoreEvent[]) => void = () => undefined;
  const store = {
    list: () => ({ items, revision: 1 }),
    watch: (_prefix: string, _after: number, listener: (events: readonly StoreEvent[]) => void) => {
      tell = listener;
      return { close: () => undefined };
    },
  };
  return { allocator: createServiceAllocator({ store, clock }), clock, tell: (event: StoreEvent) => tell([event]) };
}

describe("createServiceAllocator", () => {
  it("allocates each address once and skips those of existing Services", () => {
    const { allocator } = allocatorOf(stored("a", { clusterIPs: ["127.200.0.10"] }));
    const given = Array.from({ length: 1000 }, (_, index) => allocator.allocateAddress(`u${index}`));
    expect(new Set(given).size).toBe(1000);
    expect(given).not.toContain("127.200.0.10");
    expect(given.every((address) => allocator.isAddressInRange(address ?? ""))).toBe(true);
  });

  it("keeps the address of a Service until the Service is deleted", () => {
    const service = stored("a", { clusterIPs: ["127.200.0.10"] });
    const { allocator, tell } = allocatorOf(service);
    expect([allocator.claimAddress("b", "127.200.0.10"), allocator.claimAddress("a", "127.200.0.10")]).toEqual([false, true]);
    tell({ type: "delete", revision: 2, object: service, previous: service });
    expect(allocator.claimAddress("b", "127.200.0.10")).toBe(true);
  });

  it("releases an allocation that is not stored within a minute", async () => {
    const { allocator, clock } = allocatorOf();
    expect(allocator.claimPort("a", "TCP", 30_001)).toBe(true);
    expect(allocator.claimPort("b", "TCP", 30_001)).toBe(false);
    expect(allocator.claimPort("b", "UDP", 30_001)).toBe(true);
    await clock.advance(60_000);
    expect(allocator.claimPort("b", "TCP", 30_001)).toBe(true);
  });

  it("runs out of ports until a Service releases one", () => {
    const service = stored("a", { ports: [{ port: 80, protocol: "TCP", nodePort: 30_000 }] });
    const { allocator, tell } = allocatorOf(service);
    for (let count = 30_001; count <= 32_767; count++) expect(allocator.allocatePort("b")).toBeGreaterThan(30_000);
    expect(allocator.allocatePort("b")).toBeUndefined();
    tell({ type: "put", revision: 2, object: stored("a", { ports: [] }), previous: service });
    expect(allocator.allocatePort("b")).toBe(30_000);
  });
});
