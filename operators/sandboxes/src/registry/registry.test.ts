import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type RegisteredAgent, Registry } from "./registry.ts";

const agent = (name: string, change: Partial<RegisteredAgent> = {}): RegisteredAgent => ({
  name,
  namespace: "default",
  pool: "pool",
  node: "node",
  address: "127.0.0.1",
  capacity: 2,
  images: [],
  isReady: true,
  ...change,
});

const ask = (key: string, ports: readonly number[] = [], image = "alpine") => ({
  key,
  namespace: "default",
  pool: "pool",
  image,
  ports,
});

describe("the registry", () => {
  it("does not allocate on a drained agent, nor drain one with a sandbox", () => {
    const registry = new Registry();
    registry.register(agent("a"));
    expect(registry.allocate(ask("default/one"))).toHaveProperty("agent.name", "a");
    expect(registry.drain("default", "a")).toBe(false);
    registry.release("default/one");
    expect(registry.drain("default", "a")).toBe(true);
    // A status that comes late does not put it back into service.
    registry.register(agent("a"));
    expect(registry.allocate(ask("default/two"))).toHaveProperty("problem");
    registry.resume("default", "a");
    expect(registry.allocate(ask("default/two"))).toHaveProperty("agent.name", "a");
  });

  it("keeps the slot of a later sandbox of the same name when an earlier object is forgotten", () => {
    const registry = new Registry();
    registry.register(agent("a", { capacity: 1 }));
    registry.allocate({ ...ask("default/one"), holder: "later" });
    registry.releaseObject("default/one", (holder) => holder === "later");
    expect(registry.allocated("default", "a")).toBe(1);
    registry.releaseObject("default/one", (holder) => holder !== "later");
    expect(registry.allocated("default", "a")).toBe(0);
    // The slot of an object has no holder.
    registry.allocate(ask("default/one"));
    registry.releaseObject("default/one", () => true);
    expect(registry.allocated("default", "a")).toBe(0);
  });

  it("does not drain an unregistered agent that is known to have a sandbox", () => {
    const registry = new Registry();
    registry.restore("default/one", "default", "a", { ports: [] });
    expect([registry.drain("default", "a"), registry.allocated("default", "a")]).toEqual([false, 1]);
  });

  it("allocates on the agent that has the volumes only, to one writer or to several readers", () => {
    const registry = new Registry();
    registry.register(agent("a"));
    registry.register(agent("b", { capacity: 3 }));
    const volume = (key: string, readOnly: boolean) =>
      registry.allocate({ ...ask(key), only: "b", volumes: [{ name: "data", mountPath: "/data", readOnly }] });
    expect(volume("default/one", false)).toHaveProperty("agent.name", "b");
    const problem = "agent b, which has the volumes data, has another sandbox that uses them";
    for (const readOnly of [true, false]) expect(volume("default/two", readOnly)).toEqual({ problem });
    registry.release("default/one");
    for (const key of ["default/two", "default/three"]) expect(volume(key, true)).toHaveProperty("agent.name", "b");
    expect(volume("default/four", false)).toEqual({ problem });
    registry.register(agent("b", { isReady: false }));
    expect(volume("default/four", true)).toEqual({ problem: "agent b, which has the volumes data, is not ready" });
  });

  it("never exceeds capacity, nor allocates a port twice on an agent, in any order of requests", () => {
    const command = fc.oneof(
      fc.record({
        kind: fc.constant("allocate" as const),
        key: fc.integer({ min: 0, max: 12 }),
        ports: fc.uniqueArray(fc.integer({ min: 1, max: 4 }), { maxLength: 3 }),
        except: fc.subarray(["a", "b", "c"]),
      }),
      fc.record({ kind: fc.constant("release" as const), key: fc.integer({ min: 0, max: 12 }) }),
      fc.record({ kind: fc.constant("ready" as const), name: fc.constantFrom("a", "b", "c"), isReady: fc.boolean() }),
      fc.record({ kind: fc.constant("remove" as const), name: fc.constantFrom("a", "b", "c") }),
    );
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        const registry = new Registry();
        for (const name of ["a", "b", "c"]) registry.register(agent(name));
        const model = new Map<string, { agent: string; ports: readonly number[] }>();
        for (const each of commands) {
          const key = "key" in each ? `default/${each.key}` : "";
          if (each.kind === "release") {
            registry.release(key);
            model.delete(key);
          } else if (each.kind === "ready") {
            registry.register(agent(each.name, { isReady: each.isReady }));
          } else if (each.kind === "remove") {
            registry.remove("default", each.name);
            for (const [other, place] of model) if (place.agent === each.name) model.delete(other);
            registry.register(agent(each.name));
          } else {
            const before = model.get(key);
            const found = registry.allocate({ ...ask(key, each.ports), except: new Set(each.except) });
            if ("problem" in found) {
              expect(registry.agentOf(key)).toBe(before?.agent);
              continue;
            }
            if (before?.agent === found.agent.name) continue;
            expect(each.except).not.toContain(found.agent.name);
            model.set(key, { agent: found.agent.name, ports: each.ports });
          }
          for (const name of ["a", "b", "c"]) {
            const places = [...model.values()].filter((place) => place.agent === name);
            expect(registry.allocated("default", name)).toBe(places.length);
            expect(places.length).toBeLessThanOrEqual(2);
            const ports = places.flatMap((place) => place.ports);
            expect(new Set(ports).size).toBe(ports.length);
          }
        }
      }),
    );
  });

  it("prefers an agent with the image, by any spelling, then the least busy", () => {
    const registry = new Registry();
    registry.register(agent("empty"));
    registry.register(agent("cached", { images: ["docker.io/library/alpine:latest"] }));
    const place = (key: string): unknown => {
      const found = registry.allocate(ask(key));
      return "agent" in found ? found.agent.name : found.problem;
    };
    expect([place("default/1"), place("default/2"), place("default/3"), place("default/4")]).toEqual([
      "cached",
      "cached",
      "empty",
      "empty",
    ]);
    expect(place("default/5")).toBe("no free slot in pool pool: 2 full");
  });

  it("allocates within the pool and namespace only", () => {
    const registry = new Registry();
    registry.register(agent("other", { pool: "other" }));
    registry.register(agent("far", { namespace: "far" }));
    expect(registry.allocate(ask("default/1"))).toEqual({ problem: "no free slot: pool pool has no agents" });
  });

  it("counts slots restored before their agent registered", () => {
    const registry = new Registry();
    registry.restore("default/1", "default", "a", { ports: [80] });
    registry.register(agent("a", { capacity: 1 }));
    expect(registry.allocate(ask("default/2"))).toHaveProperty("problem");
    registry.release("default/1");
    expect(registry.allocate(ask("default/2"))).toHaveProperty("agent.name", "a");
  });
});
