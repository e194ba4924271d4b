import { describe, expect, it } from "vitest";
import { provisioned } from "./testing/simulated-app.ts";
import type { Simulation } from "./testing/simulation.ts";

const [one, two] = ["cache-redis-nodes-1", "cache-redis-nodes-2"];
const uidOf = ({ store }: Simulation, name: string) => store.get("Pod", name)?.metadata.uid;

/** The kubelet evicts a Pod. Returns whether it has been replaced since. */
function evict(simulation: Simulation, name: string): () => boolean {
  simulation.redis.kill(name);
  simulation.store.edit("Pod", name, (each) => ({
    ...each,
    status: { ...each.status, phase: "Failed", reason: "Evicted", podIP: "127.1.1.1" },
  }));
  const uid = uidOf(simulation, name);
  return () => ![undefined, uid].includes(uidOf(simulation, name));
}

describe("a Pod that has ended", () => {
  it("is replaced while the replacement of another one waits for its backoff", async () => {
    const simulation = await provisioned();
    const { clock } = simulation;
    await simulation.run(evict(simulation, one));
    const isFirstReplaced = evict(simulation, one);
    const isSecondReplaced = evict(simulation, two);
    const from = clock.now();
    await simulation.run(isSecondReplaced);
    expect([isFirstReplaced(), isSecondReplaced(), clock.now() - from]).toEqual([false, true, 0]);
    await simulation.run(isFirstReplaced);
    expect([isFirstReplaced(), clock.now() - from]).toEqual([true, 10_000]);
    await simulation.run();
    expect(simulation.status().phase).toBe("Running");
  });

  it("is replaced, also again after its backoff, while the agent of another one does not respond", async () => {
    const simulation = await provisioned();
    simulation.redis.freeze(one);
    for (let count = 0; count < 3; count += 1) {
      const isReplaced = evict(simulation, two);
      await simulation.run(isReplaced);
      expect(isReplaced()).toBe(true);
    }
    simulation.redis.thaw(one);
    await simulation.run();
    expect(simulation.status().phase).toBe("Running");
  });
});
