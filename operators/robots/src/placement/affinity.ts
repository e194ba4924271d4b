import type { DeepReadonly } from "@keelson/api-machinery";
import type { Affinity } from "../api/constraint.ts";
import type { Robot } from "../api/robot.ts";
import { violationOf } from "./constraint.ts";

const defaultWeight = 50;

/**
 * How well a robot suits a task's preferences, from -1 to 1: the sum of the weights of those that hold, relative to all weights, as in
 * Nomad. 0 without preferences.
 */
export function affinityScore(affinities: readonly DeepReadonly<Affinity>[], robot: DeepReadonly<Robot>): number {
  let total = 0;
  let sum = 0;
  for (const affinity of affinities) {
    const { weight = defaultWeight } = affinity;
    total += Math.abs(weight);
    if (violationOf(affinity, robot) === undefined) sum += weight;
  }
  return total === 0 ? 0 : sum / total;
}
