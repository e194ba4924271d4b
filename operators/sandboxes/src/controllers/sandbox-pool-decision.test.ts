import fc from "fast-check";
import { expect, it } from "vitest";
import type { Sandbox } from "../api/sandbox.ts";
import type { SandboxPool } from "../api/sandbox-pool.ts";
import { decidePool } from "./sandbox-pool-decision.ts";

const pool = (capacity: NonNullable<SandboxPool["spec"]["capacity"]>, maxSandboxesPerPod = 2): SandboxPool =>
  ({ metadata: { name: "p" }, spec: { capacity, maxSandboxesPerPod } }) as SandboxPool;
const sandbox = (phase: string): Sandbox => ({ metadata: {}, spec: {}, status: { phase } }) as unknown as Sandbox;

it("creates agents for running and waiting sandboxes and for the buffer", () => {
  const decision = decidePool(pool({ poolMin: 1, poolMax: 5, bufferMin: 1 }), [sandbox("Running"), sandbox("Pending")], []);
  expect(decision).toEqual({ desired: 2, create: ["p-agent-0", "p-agent-1"], remove: [] });
});

it("never removes an agent with a sandbox, nor exceeds its bounds", () => {
  fc.assert(
    fc.property(
      fc.nat(4),
      fc.nat(6),
      fc.nat(5),
      fc.array(fc.constantFrom("Running", "Pending", "Failed", "Expired", "Lost"), { maxLength: 20 }),
      fc.array(fc.nat(2), { maxLength: 8 }),
      (poolMin, extra, bufferMin, phases, busy) => {
        const agents = busy.map((count, index) => ({ name: `p-agent-${index}`, busy: count }));
        const poolMax = poolMin + extra;
        const { create, remove, desired } = decidePool(pool({ poolMin, poolMax, bufferMin }), phases.map(sandbox), agents);
        expect(remove.every((name) => agents.find((agent) => agent.name === name)?.busy === 0)).toBe(true);
        expect(desired).toBeGreaterThanOrEqual(poolMin);
        expect(desired).toBeLessThanOrEqual(poolMax);
        expect(new Set([...create, ...agents.map((agent) => agent.name)]).size).toBe(create.length + agents.length);
        expect(create.length === 0 || remove.length === 0).toBe(true);
        expect(agents.length - remove.length).toBeGreaterThanOrEqual(Math.min(poolMin, agents.length));
      },
    ),
  );
});

it("adds one agent if a create was rejected, within its bounds, and keeps it while it is idle", () => {
  const [full, needs] = [[sandbox("Running"), sandbox("Running")], { pinned: new Set<string>(), isAgentWanted: false }];
  const agents = [{ name: "p-agent-0", busy: 2 }];
  const decide = (poolMax: number, hasRejected: boolean, all = agents) =>
    decidePool(pool({ poolMin: 1, poolMax }), full, all, { ...needs, hasRejected });
  expect(decide(3, false)).toEqual({ desired: 1, create: [], remove: [] });
  expect(decide(3, true)).toEqual({ desired: 2, create: ["p-agent-1"], remove: [] });
  expect(decide(1, true)).toEqual({ desired: 1, create: [], remove: [] });
  const grown = [...agents, { name: "p-agent-1", busy: 0 }];
  for (const hasRejected of [true, false]) expect(decide(3, hasRejected, grown)).toMatchObject({ create: [], remove: [] });
});

it("adds up to burstMax agents for sandboxes that burst, and removes them afterwards", () => {
  const burst = { ...sandbox("Pending"), spec: { whenFull: "Burst" } } as unknown as Sandbox;
  const full = [sandbox("Running"), sandbox("Running")];
  const capacity = { poolMin: 1, poolMax: 1, burstMax: 2 };
  const agents = [{ name: "p-agent-0", busy: 2 }];
  expect(decidePool(pool(capacity), [...full, sandbox("Pending")], agents).create).toEqual([]);
  expect(decidePool(pool(capacity), [...full, burst], agents).create).toEqual(["p-agent-1"]);
  expect(decidePool(pool({ ...capacity, burstMax: 0 }), [...full, burst], agents).create).toEqual([]);
  const many = Array.from({ length: 9 }, () => burst);
  expect(decidePool(pool(capacity), [...full, ...many], agents)).toMatchObject({ desired: 3 });
  const grown = [...agents, { name: "p-agent-1", busy: 0 }];
  expect(decidePool(pool(capacity), full, grown).remove).toEqual(["p-agent-1"]);
  const fitting = { ...burst, status: { phase: "Running" } } as Sandbox;
  expect(decidePool(pool(capacity), [fitting, sandbox("Running")], grown).remove).toEqual(["p-agent-1"]);
});

it("replaces a terminating or dead agent without reusing its name", () => {
  const agents = [
    { name: "p-agent-0", busy: 0, isEnding: true },
    { name: "p-agent-1", busy: 2, isDead: true },
  ];
  expect(decidePool(pool({ poolMin: 2 }), [], agents)).toEqual({
    desired: 2,
    create: ["p-agent-2", "p-agent-3"],
    remove: ["p-agent-1"],
  });
});

it("removes every idle agent of a deleted pool", () => {
  const deleted = pool({ poolMin: 2 });
  deleted.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  const agents = [
    { name: "p-agent-0", busy: 1 },
    { name: "p-agent-1", busy: 0 },
  ];
  expect(decidePool(deleted, [], agents)).toEqual({ desired: 0, create: [], remove: ["p-agent-1"] });
});

it("keeps the agents that have volumes, and creates them again under their names", () => {
  const idle = (name: string) => ({ name, busy: 0 });
  const volumes = { pinned: new Set(["p-agent-2"]), isAgentWanted: false };
  // Not surplus, although it is idle and has the highest number.
  expect(decidePool(pool({ poolMin: 0, poolMax: 3 }), [], [idle("p-agent-2")], volumes).remove).toEqual([]);
  expect(decidePool(pool({ poolMin: 0, poolMax: 3 }), [], [], volumes).create).toEqual(["p-agent-2"]);
  // While the deleted Pod still has the name, its place is kept, so that the pool does not grow by another agent.
  const ending = { ...idle("p-agent-2"), isEnding: true };
  expect(decidePool(pool({ poolMin: 2, poolMax: 2 }), [], [idle("p-agent-0"), ending], volumes).create).toEqual([]);
  expect(decidePool(pool({ poolMin: 2, poolMax: 2 }), [], [idle("p-agent-0")], volumes).create).toEqual(["p-agent-2"]);
  const deleted = { ...pool({ poolMin: 2, poolMax: 2 }) };
  deleted.metadata = { ...deleted.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
  expect(decidePool(deleted, [], [idle("p-agent-2")], volumes)).toEqual({ desired: 0, create: [], remove: ["p-agent-2"] });
});

it("creates an agent for a volume that waits for one", () => {
  const volumes = { pinned: new Set<string>(), isAgentWanted: true };
  expect(decidePool(pool({ poolMin: 0, poolMax: 2 }), [], [], volumes).create).toEqual(["p-agent-0"]);
  expect(decidePool(pool({ poolMin: 0, poolMax: 0 }), [], [], volumes).create).toEqual([]);
});
