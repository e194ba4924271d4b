import type { DeepReadonly } from "@keelson/api-machinery";
import type { Task } from "../../api/task.ts";
import { copyOf } from "../../rollout/copies.ts";
import { windowStateOf } from "../../rollout/maintenance-window.ts";
import { decideRollout, type RolloutDecision } from "../../rollout/rollout-decision.ts";
import type { RolloutObservation } from "../../rollout/rollout-observation.ts";
import { completeUpdatePolicy } from "../../rollout/update-policy.ts";
import { copiesOf, type GroupCopy, keyOf, keyOfCopy, specOf } from "../../work/group-copies.ts";
import type { TaskGroupObservation } from "./taskgroup-observation.ts";

/** What a rollout does with a group's copies. */
export interface RolloutPlan extends RolloutDecision {
  /** Surplus Tasks in the order of their removal: those that the stable revision does not have either come first. */
  readonly orderSurplus: (surplus: readonly DeepReadonly<Task>[]) => readonly DeepReadonly<Task>[];
  /** Spec of a missing Task. */
  readonly specOf: (copy: GroupCopy) => DeepReadonly<Task["spec"]>;
}

/** Plans the rollout of a group with a revision. */
export function planRollout(
  { group, tasks, stable, robots, now }: TaskGroupObservation,
  copies: readonly GroupCopy[],
  present: ReadonlyMap<string, DeepReadonly<Task>>,
): RolloutPlan | undefined {
  const { revision, rollout } = group.spec;
  if (revision === undefined) return undefined;
  const policy = completeUpdatePolicy([group.spec.update], copies.length);
  const stableSpec = stable === undefined ? undefined : { ...stable, count: group.spec.count };
  const stableCopies = new Map(
    (stableSpec === undefined ? [] : copiesOf(stableSpec, robots)).map((copy) => [keyOfCopy(copy), copy]),
  );
  const context = {
    robots: new Map(robots.map((robot) => [robot.metadata.name ?? "", robot])),
    stableKeys: new Set(stableCopies.keys()),
    policy,
    now,
  };
  const wanted = new Set(copies.map(keyOfCopy));
  const surplus = tasks.filter((task) => !wanted.has(keyOf(task)));
  const isUnneeded = (task: DeepReadonly<Task>): boolean => stableSpec !== undefined && !stableCopies.has(keyOf(task));
  const before = group.status?.rollout;
  const decision = decideRollout({
    revision,
    stable: rollout?.stable ?? revision,
    isPaused: rollout?.isPaused === true,
    isPromoted: rollout?.isPromoted === true,
    isRevert: rollout?.isRevert === true,
    policy,
    copies: copies.map((copy) => {
      const key = keyOfCopy(copy);
      return copyOf({ key, ...(copy.robot === undefined ? {} : { robot: copy.robot }) }, present.get(key), context);
    }),
    surplus: countSurplus(surplus, isUnneeded),
    before,
    window: windowStateOf(policy.windows, now),
    now,
  });
  const previousRobots = new Map((before?.updating ?? []).map(({ task, robot }) => [task, robot]));
  return {
    ...decision,
    orderSurplus: (tasks) => [...tasks.filter(isUnneeded), ...tasks.filter((task) => !isUnneeded(task))],
    specOf(copy) {
      const key = keyOfCopy(copy);
      const old = decision.createStable.has(key) ? stableCopies.get(key) : undefined;
      if (old !== undefined && stableSpec !== undefined) {
        return { ...specOf({ ...group, spec: stableSpec }, old.definition, old.robot), revision: rollout?.stable ?? revision };
      }
      const preferred = copy.robot === undefined ? previousRobots.get(key) : undefined;
      return {
        ...specOf(group, copy.definition, copy.robot),
        revision,
        ...(preferred === undefined ? {} : { preferredRobot: preferred }),
      };
    },
  };
}

/** Counts the Tasks that a revision does not have. */
function countSurplus(
  surplus: readonly DeepReadonly<Task>[],
  isUnneeded: (task: DeepReadonly<Task>) => boolean,
): RolloutObservation["surplus"] {
  const remaining = surplus.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return {
    total: surplus.length,
    deleting: surplus.length - remaining.length,
    unneeded: remaining.filter(isUnneeded).length,
  };
}
