import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { robotOf } from "../testing/objects.ts";
import { type Demand, explainRobots, noLoad } from "./placement.ts";
import { decidePreemption, type Occupant, type Preemption } from "./preemption.ts";

const machine = (name: string, cores = 4) =>
  robotOf(name, { status: { phase: "Online", deviceInfo: { cpu: { logicalCores: cores }, memory: { total: 1000 } } } });

const demandOf = (cpu: number, rest: Partial<Demand> = {}): Demand => ({
  selector: {},
  constraints: [],
  cpu,
  cpuMhz: 0,
  memoryBytes: 0,
  diskBytes: 0,
  ...rest,
});

const occupant = (name: string, priority: number, cpu: number, kind: Occupant["kind"] = "preemptible"): Occupant => ({
  name,
  uid: name,
  attempt: 1,
  priority,
  cpu,
  cpuMhz: 0,
  memoryBytes: 0,
  diskBytes: 0,
  devices: noLoad.devices,
  kind,
});

function preempt(
  demand: Demand,
  occupants: Readonly<Record<string, readonly Occupant[]>>,
  current?: { robot: string; tasks: { uid: string; attempt: number }[] },
): string | undefined {
  const robots = Object.keys(occupants).map((name) => machine(name));
  const preemption = decidePreemption({
    demand,
    robots,
    occupantsOf: ({ metadata }) => occupants[metadata.name ?? ""] ?? [],
    scoreOf: () => 0,
    ...(current === undefined ? {} : { current }),
  });
  return preemption === undefined ? undefined : namesOf(preemption);
}

const namesOf = ({ robot, victims }: Preemption): string => `${robot}: ${victims.map(({ name }) => name).join(",")}`;

describe("decidePreemption", () => {
  it("stops the tasks of the lowest priority, and no more than necessary", () => {
    const all = [occupant("high", 40, 1), occupant("low", 10, 1), occupant("mid", 20, 2)];
    expect(preempt(demandOf(1), { r: all })).toBe("r: low");
    expect(preempt(demandOf(2), { r: all })).toBe("r: mid");
    expect(preempt(demandOf(3), { r: all })).toBe("r: mid,low");
    expect(preempt(demandOf(5), { r: all })).toBeUndefined();
  });

  it("of tasks with the same priority stops the fewest, then the smallest", () => {
    const same = [occupant("a", 10, 1), occupant("b", 10, 1), occupant("c", 10, 2)];
    expect(preempt(demandOf(2), { r: same })).toBe("r: c");
    expect(preempt(demandOf(1), { r: same })).toMatch(/^r: [ab]$/);
  });

  it("chooses the robot whose most important victim has the lowest priority, then the one with the fewest victims", () => {
    expect(preempt(demandOf(4), { a: [occupant("x", 20, 4)], b: [occupant("y", 10, 2), occupant("z", 10, 2)] })).toBe("b: y,z");
    expect(preempt(demandOf(4), { a: [occupant("x", 10, 2), occupant("y", 10, 2)], b: [occupant("z", 10, 4)] })).toBe("b: z");
    expect(preempt(demandOf(4), { a: [occupant("x", 10, 4)], b: [occupant("y", 10, 4)] })).toBe("a: x");
  });

  it("waiting for tasks that are leaving instead of stopping others", () => {
    expect(preempt(demandOf(2), { r: [occupant("x", 10, 2), occupant("gone", 90, 2, "leaving")] })).toBe("r: ");
    expect(preempt(demandOf(4), { r: [occupant("x", 10, 2), occupant("gone", 90, 2, "leaving")] })).toBe("r: x");
    expect(preempt(demandOf(4), { r: [occupant("x", 10, 2), occupant("stays", 90, 2, "fixed")] })).toBeUndefined();
  });

  it("does not help against anything but a shortage", () => {
    expect(preempt(demandOf(1, { selector: { site: "x" } }), { r: [occupant("x", 10, 4)] })).toBeUndefined();
  });

  it("keeps its choice while it is enough", () => {
    const occupants = { a: [occupant("x", 10, 4)], b: [occupant("y", 30, 4)] };
    const current = { robot: "b", tasks: [{ uid: "y", attempt: 1 }] };
    expect(preempt(demandOf(4), occupants, current)).toBe("b: y");
    expect(preempt(demandOf(4), occupants, { ...current, tasks: [{ uid: "y", attempt: 2 }] })).toBe("a: x");
    expect(preempt(demandOf(4), { a: occupants.a }, current)).toBe("a: x");
    expect(preempt(demandOf(4), { ...occupants, b: [occupant("y", 30, 4), occupant("z", 90, 1, "fixed")] }, current)).toBe(
      "a: x",
    );
  });

  it("stops a minimal set of preemptible tasks, after which the task fits", () => {
    const anOccupant = fc.record({
      priority: fc.integer({ min: 0, max: 90 }),
      cpu: fc.integer({ min: 1, max: 20 }).map((tenths) => tenths / 10),
      memoryBytes: fc.integer({ min: 0, max: 400 }),
      kind: fc.constantFrom("fixed" as const, "preemptible" as const, "preemptible" as const, "leaving" as const),
    });
    const demand = fc.record({ cpu: fc.integer({ min: 1, max: 40 }).map((tenths) => tenths / 10), memoryBytes: fc.nat(800) });
    let found = 0;
    fc.assert(
      fc.property(fc.array(anOccupant, { maxLength: 8 }), demand, (some, wanted) => {
        const all = some.map((each, index) => ({ ...occupant(`t-${index}`, each.priority, each.cpu), ...each }));
        const robot = machine("r");
        const task = { ...demandOf(wanted.cpu), memoryBytes: wanted.memoryBytes };
        const fits = (staying: readonly Occupant[]): boolean => {
          const load = staying.reduce(
            (sum, { cpu, memoryBytes }) => ({ ...sum, cpu: sum.cpu + cpu, memoryBytes: sum.memoryBytes + memoryBytes }),
            noLoad,
          );
          return explainRobots(task, [robot], () => load)[0] === undefined;
        };
        const preemption = decidePreemption({ demand: task, robots: [robot], occupantsOf: () => all, scoreOf: () => 0 });
        const staying = all.filter(({ kind }) => kind !== "leaving");
        if (preemption === undefined) {
          const canLeave = all.some(({ kind }) => kind !== "fixed");
          expect(canLeave && fits(staying.filter(({ kind }) => kind === "fixed"))).toBe(false);
          return;
        }
        found++;
        const victims = new Set(preemption.victims.map(({ uid }) => uid));
        const kept = staying.filter(({ uid }) => !victims.has(uid));
        const stopped = staying.filter(({ uid }) => victims.has(uid));
        expect(stopped.length).toBe(preemption.victims.length);
        expect(stopped.every(({ kind }) => kind === "preemptible")).toBe(true);
        expect(fits(kept)).toBe(true);
        for (const each of stopped) expect(fits([...kept, each])).toBe(false);
        // Those of lower priority alone would not have been enough.
        const highest = Math.max(-1, ...stopped.map(({ priority }) => priority));
        expect(
          stopped.length > 0 && fits(staying.filter(({ kind, priority }) => kind === "fixed" || priority >= highest)),
        ).toBe(false);
      }),
    );
    expect(found).toBeGreaterThan(0);
  });
});
