import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Spread } from "../api/spread.ts";
import { robotOf } from "../testing/objects.ts";
import { type Demand, decidePlacement, noLoad } from "./placement.ts";
import { onlyCopy, spreadProblem, spreadScorer } from "./spread.ts";

const attribute = "${label.site}";
const anything: Demand = { selector: {}, constraints: [], cpu: 0, cpuMhz: 0, memoryBytes: 0, diskBytes: 0 };
const at = (name: string, site: string | undefined) => robotOf(name, { spec: site === undefined ? {} : { labels: { site } } });

/** Places copies one after the other. Returns the number of each site. */
function place(
  total: number,
  spreads: readonly Spread[],
  sites: readonly (string | undefined)[],
  demand: Partial<Demand> = {},
) {
  const robots = sites.map((site, index) => at(`r-${index}`, site));
  const byRobot = new Map<string, number>();
  const bySite: Record<string, number> = {};
  for (let copy = 0; copy < total; copy++) {
    const load = (robot: string) => ({ ...noLoad, tasks: byRobot.get(robot) ?? 0 });
    const placement = decidePlacement({ ...anything, ...demand, spreads }, robots, load, { total, byRobot });
    if (placement.kind !== "placed") throw new Error(placement.message);
    const { metadata, spec } = placement.robot;
    byRobot.set(metadata.name ?? "", (byRobot.get(metadata.name ?? "") ?? 0) + 1);
    const site = spec.labels?.site ?? "none";
    bySite[site] = (bySite[site] ?? 0) + 1;
  }
  return bySite;
}
const targets = (shares: Record<string, number>) => Object.entries(shares).map(([value, percent]) => ({ value, percent }));

describe("a spread", () => {
  it("without targets spreads copies evenly over values, whatever the number of robots of each", () => {
    expect(place(6, [{ attribute }], ["a", "a", "a", "a", "b", "c"])).toEqual({ a: 2, b: 2, c: 2 });
    fc.assert(
      fc.property(fc.array(fc.constantFrom("a", "b", "c", "d"), { minLength: 1, maxLength: 8 }), fc.nat(30), (sites, total) => {
        const counts = place(total, [{ attribute }], sites);
        const all = [...new Set(sites)].map((site) => counts[site] ?? 0);
        expect(Math.max(...all) - Math.min(...all)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it("with targets gives each value its share", () => {
    expect(place(10, [{ attribute, targets: targets({ a: 70, b: 30 }) }], ["a", "b", "b", "b"])).toEqual({ a: 7, b: 3 });
    expect(place(10, [{ attribute, targets: targets({ a: 100 }) }], ["a", "b"])).toEqual({ a: 10 });
    expect(place(4, [{ attribute, targets: targets({ a: 0, b: 100 }) }], ["a", "b"])).toEqual({ b: 4 });
  });

  it('leaves what the targets do not claim to every other value, or to "*"', () => {
    expect(place(10, [{ attribute, targets: targets({ a: 50 }) }], ["a", "b"])).toEqual({ a: 5, b: 5 });
    expect(place(10, [{ attribute, targets: targets({ a: 80, "*": 20 }) }], ["a", "b"])).toEqual({ a: 8, b: 2 });
  });

  it("is a preference: copies beyond a share go to the robots that exist", () => {
    expect(place(4, [{ attribute, targets: targets({ a: 25, b: 75 }) }], ["a"])).toEqual({ a: 4 });
    expect(place(3, [{ attribute }], ["a", undefined])).toEqual({ a: 3 });
    expect(place(40, [{ attribute, targets: targets({ a: 1, b: 99 }) }], ["a", "c", undefined])).toEqual({ a: 40 });
  });

  it("penalizes robots without the attribute", () => {
    const score = spreadScorer([{ attribute }], [], onlyCopy);
    expect([score(at("x", undefined)), score(at("y", "a"))]).toEqual([-1, 0]);
  });

  it("counts by its weight relative to the other spreads, and alongside affinities", () => {
    const [a, b] = [at("a", "a"), at("b", "b")];
    const toA = { attribute, targets: targets({ a: 100 }) };
    const toB = { attribute, targets: targets({ b: 100 }) };
    const copies = { total: 10, byRobot: new Map<string, number>() };
    const score = spreadScorer(
      [
        { ...toA, weight: 75 },
        { ...toB, weight: 25 },
      ],
      [a, b],
      copies,
    );
    expect(score(a)).toBeCloseTo(0.75 * 0.9 - 0.25);
    expect(score(b)).toBeCloseTo(0.25 * 0.9 - 0.75);
    expect(spreadScorer([], [a], copies)(a)).toBe(0);
    const affinities = [{ lTarget: attribute, rTarget: "b", weight: 100 }];
    expect(place(1, [{ attribute }], ["a", "b"], { affinities })).toEqual({ b: 1 });
  });

  it("is rejected with the field's name", () => {
    for (const bad of [
      "${site}",
      "${label.}",
      "${atr.cpu.arch}",
      "${attr.cpu.archh}",
      "${label.site",
      "${label.a}${node.class}",
    ])
      expect(spreadProblem({ attribute: bad })).toMatch(/^attribute: Invalid value: .*(unknown reference|must end with })/);
    for (const good of ["${ label.site }", "${meta.x}-${attr.cpu.arch}", "${robot.id}", "${node.unique.name}"])
      expect(spreadProblem({ attribute: good })).toBeUndefined();
    expect(spreadProblem({ attribute: "site" })).toMatch(/^attribute: Invalid value: "site"/);
    expect(spreadProblem({ attribute, targets: targets({ a: 60, b: 50 }) })).toMatch(/^targets: Invalid value: 110/);
    expect(spreadProblem({ attribute, targets: [...targets({ a: 1 }), ...targets({ a: 2 })] })).toBe(
      'targets: Duplicate value: "a"',
    );
    expect(spreadProblem({ attribute, targets: targets({ a: 60, b: 40 }) })).toBeUndefined();
  });
});
