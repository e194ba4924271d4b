import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../api/robot.ts";
import type { Spread } from "../api/spread.ts";
import { interpolate, referenceProblem } from "./constraint.ts";

const defaultWeight = 50;

/** Value of a target for every value that has no target. */
const anyValue = "*";

/** The copies of a task: the Tasks of the same definition in the same group. */
export interface Copies {
  /** Number of copies that there should be, the task itself included. */
  readonly total: number;
  /** Number of other copies that use a robot, by its name. */
  readonly byRobot: ReadonlyMap<string, number>;
}

/** A task without other copies. */
export const onlyCopy: Copies = { total: 1, byRobot: new Map() };

/** Why a spread is not valid; undefined if it is. */
export function spreadProblem({ attribute, targets = [] }: DeepReadonly<Spread>): string | undefined {
  const badReference = attribute.includes("${")
    ? referenceProblem(attribute)
    : "must reference an attribute, such as ${label.site}";
  if (badReference !== undefined) return `attribute: Invalid value: ${JSON.stringify(attribute)}: ${badReference}`;
  const values = targets.map(({ value }) => value);
  const duplicate = values.find((value, index) => values.indexOf(value) !== index);
  if (duplicate !== undefined) return `targets: Duplicate value: ${JSON.stringify(duplicate)}`;
  const sum = targets.reduce((total, { percent }) => total + percent, 0);
  return sum > 100 ? `targets: Invalid value: ${sum}: must be at most 100 percent together` : undefined;
}

/**
 * Returns a function that scores how well a robot suits the spreads of a task: the sum of the scores of each spread, weighted relative to all
 * weights. 0 without spreads. As in Nomad, except that each score is between -1 and 1:
 *
 * - With targets, a robot scores the part of its value's share that is free after the placement. It is negative beyond the share.
 * - Without targets, a robot scores more than 0 if its value has fewer copies than another, and less if it has more.
 * - A robot without the attribute, or whose value has no share, scores -1. Every other score is higher.
 */
export function spreadScorer(
  spreads: readonly DeepReadonly<Spread>[],
  robots: readonly DeepReadonly<Robot>[],
  copies: Copies,
): (robot: DeepReadonly<Robot>) => number {
  const totalWeight = spreads.reduce((sum, { weight = defaultWeight }) => sum + weight, 0);
  const scorers = spreads.map((spread) => {
    const valueOf = (robot: DeepReadonly<Robot>): string | undefined => {
      const { text, unknown } = interpolate(spread.attribute, robot);
      return unknown === undefined ? text : undefined;
    };
    const used = countByValue(robots, copies, valueOf);
    const shares = sharesOf(spread, copies.total);
    const share = (spread.weight ?? defaultWeight) / totalWeight;
    return (robot: DeepReadonly<Robot>): number => {
      const value = valueOf(robot);
      if (value === undefined) return -share;
      return share * (shares === undefined ? evenScore(value, used) : targetScore(value, used, shares));
    };
  });
  return (robot) => scorers.reduce((sum, score) => sum + score(robot), 0);
}

function countByValue(
  robots: readonly DeepReadonly<Robot>[],
  { byRobot }: Copies,
  valueOf: (robot: DeepReadonly<Robot>) => string | undefined,
): ReadonlyMap<string, number> {
  const used = new Map<string, number>();
  for (const robot of robots) {
    const count = byRobot.get(robot.metadata.name ?? "") ?? 0;
    const value = count === 0 ? undefined : valueOf(robot);
    if (value !== undefined) used.set(value, (used.get(value) ?? 0) + count);
  }
  return used;
}

/** Number of copies that each value should have. Undefined without targets. */
function sharesOf({ targets = [] }: DeepReadonly<Spread>, total: number): ReadonlyMap<string, number> | undefined {
  if (targets.length === 0) return undefined;
  const shares = new Map(targets.map(({ value, percent }) => [value, (percent / 100) * total]));
  const sum = targets.reduce((all, { percent }) => all + percent, 0);
  if (!shares.has(anyValue) && sum > 0 && sum < 100) shares.set(anyValue, ((100 - sum) / 100) * total);
  return shares;
}

function targetScore(value: string, used: ReadonlyMap<string, number>, shares: ReadonlyMap<string, number>): number {
  const share = shares.get(value) ?? shares.get(anyValue) ?? 0;
  return share === 0 ? -1 : bounded((share - (used.get(value) ?? 0) - 1) / share);
}

/** Values without copies do not lower the minimum: what matters is how this value compares with those in use. */
function evenScore(value: string, used: ReadonlyMap<string, number>): number {
  if (used.size === 0) return 0;
  const [min, max] = [Math.min(...used.values()), Math.max(...used.values())];
  const own = used.get(value) ?? 0;
  if (own !== min) return bounded((min - own) / min);
  return bounded(min === max ? -1 : (max - min) / min);
}

/** At most 1 and more than -1. Negative scores keep their order. */
const bounded = (score: number): number => (score < 0 ? score / (1 - score) : Math.min(score, 1));
