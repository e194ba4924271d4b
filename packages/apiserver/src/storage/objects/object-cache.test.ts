import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { StoredObject } from "../store.ts";
import { ObjectCache } from "./object-cache.ts";

const stored = (key: string, revision: number, size: number): StoredObject => ({
  key,
  revision,
  bytes: new Uint8Array(size),
  object: { apiVersion: "v1", kind: "Thing", metadata: {} },
});

describe("ObjectCache", () => {
  it("keeps used objects and drops unused ones", () => {
    const cache = new ObjectCache(100);
    cache.set(stored("used", 1, 10));
    cache.set(stored("idle", 1, 10));
    for (let i = 0; i < 20; i++) {
      cache.set(stored(`other ${i}`, 1, 10));
      expect(cache.get("used")?.revision).toBe(1);
    }
    expect(cache.get("idle")).toBeUndefined();
  });

  it("returns only the newest object of a key and never exceeds its limit", () => {
    const step = fc.record({
      key: fc.constantFrom("a", "b", "c", "d"),
      action: fc.constantFrom("get", "set", "delete"),
      size: fc.nat(60),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const cache = new ObjectCache(100);
        const newest = new Map<string, number>();
        let isRight = true;
        for (const [index, { key, action, size }] of steps.entries()) {
          if (action === "set") {
            cache.set(stored(key, index, size));
            newest.set(key, index);
          } else if (action === "delete") {
            cache.delete(key);
            newest.delete(key);
          } else {
            const found = cache.get(key);
            isRight &&= found === undefined || found.revision === newest.get(key);
          }
        }
        expect(isRight).toBe(true);
        const held = ["a", "b", "c", "d"].map((key) => cache.get(key)?.bytes.length ?? 0);
        expect(held.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(100);
      }),
    );
  });
});
