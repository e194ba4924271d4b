import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { isPerRobot } from "../api/job.ts";
import { labels } from "../api/names.ts";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import type { TaskDefinition } from "../api/task-definition.ts";
import type { TaskGroup } from "../api/taskgroup.ts";
import { isEligible } from "../placement/placement.ts";
import { childName, claimOf, labelValue, unambiguousChildName } from "../work/child-name.ts";
import { conditionsOf, hasCondition } from "../work/conditions.ts";
import { copyOf } from "../rollout/copies.ts";
import { windowStateOf } from "../rollout/maintenance-window.ts";
import { decideRollout, type RolloutDecision } from "../rollout/rollout-decision.ts";
import { completeUpdatePolicy } from "../rollout/update-policy.ts";
import { addTallies, emptyTally, outcomeConditions, type Tally, tallyFields, workStateOf } from "../work/tally.ts";

/** Input of {@link decideTaskGroup}. */
export interface TaskGroupObservation {
  readonly group: DeepReadonly<TaskGroup>;
  /** The Tasks that the group owns. */
  readonly tasks: readonly DeepReadonly<Task>[];
  /** Looks up any Task of the namespace by name. */
  readonly taskNamed: (name: string) => DeepReadonly<Task> | undefined;
  /** Spec of the group in the stable revision of its Job, if that exists and differs from the group's. */
  readonly stable?: DeepReadonly<TaskGroup["spec"]>;
  /** The robots of the namespace. Used only for a group with a revision, or of type `system` or `sysbatch`. */
  readonly robots: readonly DeepReadonly<Robot>[];
  readonly now: number;
}

/** A Task to apply. */
export interface TaskDraft {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: DeepReadonly<Task["spec"]>;
}

/** Writes: Tasks to create, Tasks to delete, then the status (absent: unchanged). */
export interface TaskGroupDecision {
  readonly create: readonly TaskDraft[];
  /** Names. */
  readonly remove: readonly string[];
  readonly status?: NonNullable<TaskGroup["status"]>;
  readonly requeueAfterMs?: number;
}

const noWrites: TaskGroupDecision = { create: [], remove: [] };

/**
 * Decides about a TaskGroup: which Tasks are missing, which are beyond `count`, and the status.
 *
 * **Guarantees**: a group that has ended does not change. A Task's name follows from the group, the task and the index of the
 * copy, so creating it is idempotent. A deleted Task is recreated while the group has not ended. A group of type `system` or `sysbatch` has
 * one copy for every eligible robot instead of `count` copies. `system` never completes; `sysbatch` is running again when a robot joins.
 * Tasks of another revision are replaced as {@link decideRollout} says.
 */
export function decideTaskGroup(observation: TaskGroupObservation): TaskGroupDecision {
  const { group, tasks, taskNamed, robots, now } = observation;
  if (group.metadata.deletionTimestamp !== undefined) return noWrites;
  const before = group.status?.state;
  const isFinal = !isPerRobot(group.spec.type) && group.spec.revision === undefined;
  if (isFinal && (before === "completed" || before === "failed")) return noWrites;

  const groupName = group.metadata.name ?? "";
  const owner = { kind: "TaskGroup", name: groupName, uid: group.metadata.uid ?? "" };
  const present = new Map(tasks.map((task) => [keyOf(task), task]));
  const create: TaskDraft[] = [];
  const wanted = new Set<string>();
  let tally: Tally = emptyTally;
  const copies = copiesOf(group.spec, robots);
  const rollout = planRollout(observation, copies, present);
  for (const copy of copies) {
    const { definition, index } = copy;
    const key = keyOfCopy(copy);
    wanted.add(key);
    const task = present.get(key);
    if (task === undefined && rollout?.postpone.has(key) !== true) {
      const parts = [groupName, definition.name, index];
      const claim = claimOf(taskNamed(childName(...parts)), owner);
      if (claim === "free" || claim === "foreign") {
        const name = claim === "free" ? childName(...parts) : unambiguousChildName(...parts);
        const spec = rollout?.specOf(copy) ?? specOf(group, definition, copy.robot);
        create.push({ name, labels: taskLabels(group, index), spec });
      }
    }
    tally = addTallies(tally, tallyOfTask(task));
  }
  const surplus = tasks.filter(
    (task) => !wanted.has(keyOf(task)) && task.metadata.deletionTimestamp === undefined && !isResult(group, task),
  );
  const stopped = (rollout?.stop ?? []).flatMap((key) => present.get(key) ?? []);
  const remove = [...stopped, ...surplus.slice(0, rollout?.removeSurplus)].map((task) => task.metadata.name ?? "");

  const outcome = workStateOf(tally);
  // More robots may join, so a system group does not complete. It has failed while every one of its tasks has.
  const state = group.spec.type === "system" && outcome === "completed" ? "running" : outcome;
  const generation = group.metadata.generation ?? 0;
  const { startedAt, completedAt, ...fields } = tallyFields(tally, state);
  const status: NonNullable<TaskGroup["status"]> = {
    state,
    observedGeneration: generation,
    ...fields,
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(completedAt === undefined ? {} : { completedAt }),
    ...(rollout === undefined ? {} : { rollout: rollout.status }),
    conditions: conditionsOf(
      outcomeConditions(tally, state, generation, hasCondition(group, "Lost")),
      group.status?.conditions,
      now,
    ),
  };
  return {
    create,
    remove,
    ...(jsonEquals(status, group.status) ? {} : { status }),
    ...(rollout?.requeueAfterMs === undefined ? {} : { requeueAfterMs: rollout.requeueAfterMs }),
  };
}

/** Whether a Task is the result of a robot that no longer matches, which is kept. */
function isResult({ spec }: DeepReadonly<TaskGroup>, { status }: DeepReadonly<Task>): boolean {
  return spec.type === "sysbatch" && (status?.state === "completed" || status?.state === "failed");
}

/** What a rollout does with a group's copies. */
interface RolloutPlan extends RolloutDecision {
  /** Spec of a missing Task. */
  readonly specOf: (copy: GroupCopy) => DeepReadonly<Task["spec"]>;
}

/** Plans the rollout of a group with a revision. */
function planRollout(
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
  const before = group.status?.rollout;
  const decision = decideRollout({
    revision,
    stable: rollout?.stable ?? revision,
    isPaused: rollout?.isPaused === true,
    isPromoted: rollout?.isPromoted === true,
    isRevert: rollout?.isRevert === true,
    policy,
    copies: copies.map((copy) =>
      copyOf(
        { key: keyOfCopy(copy), ...(copy.robot === undefined ? {} : { robot: copy.robot }) },
        present.get(keyOfCopy(copy)),
        context,
      ),
    ),
    surplus: {
      total: surplus.length,
      deleting: surplus.filter(({ metadata }) => metadata.deletionTimestamp !== undefined).length,
    },
    before,
    window: windowStateOf(policy.windows, now),
    now,
  });
  const previousRobots = new Map((before?.updating ?? []).map(({ task, robot }) => [task, robot]));
  return {
    ...decision,
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

/** A copy of a task that a group should have. */
export interface GroupCopy {
  readonly definition: DeepReadonly<TaskDefinition>;
  /** Index of the copy, or the name of its robot in a group with one copy per robot. */
  readonly index: string;
  /** The robot that the Task is pinned to. */
  readonly robot?: string;
}

/** The Tasks that a group should have. */
export function copiesOf(
  spec: DeepReadonly<TaskGroup["spec"]>,
  robots: readonly DeepReadonly<Robot>[],
): readonly GroupCopy[] {
  if (!isPerRobot(spec.type)) {
    return Array.from({ length: spec.count }, (_, index) => String(index)).flatMap((index) =>
      spec.tasks.map((definition) => ({ definition, index })),
    );
  }
  return spec.tasks.flatMap((definition) => {
    const requirements = {
      selector: spec.robotSelector ?? {},
      constraints: constraintsOf(spec, definition),
      driver: definition.driver,
    };
    return robots
      .filter((robot) => isEligible(requirements, robot))
      .map((robot) => ({ definition, index: robot.metadata.name ?? "", robot: robot.metadata.name ?? "" }));
  });
}

function constraintsOf(group: DeepReadonly<TaskGroup["spec"]>, definition: DeepReadonly<TaskDefinition>) {
  return [...(group.constraints ?? []), ...(definition.constraints ?? [])];
}

/** Identifies a copy within its group, as {@link keyOf} does for its Task. */
export function keyOfCopy({ definition, index }: GroupCopy): string {
  return `${definition.name}/${index}`;
}

/** Identifies a Task within its group by task and index. It does not depend on the Task's name. */
export function keyOf(task: DeepReadonly<Task>): string {
  return `${task.spec.name}/${task.metadata.labels?.[labels.taskIndex] ?? ""}`;
}

function taskLabels(group: DeepReadonly<TaskGroup>, index: string): Record<string, string> {
  return {
    [labels.job]: labelValue(group.spec.jobName),
    [labels.taskGroup]: labelValue(group.metadata.name ?? ""),
    [labels.taskIndex]: index,
  };
}

export function specOf(
  group: Pick<DeepReadonly<TaskGroup>, "metadata" | "spec">,
  definition: DeepReadonly<TaskDefinition>,
  robot: string | undefined,
): DeepReadonly<Task["spec"]> {
  const { robotSelector, priority, type, reschedulePolicy, disconnect, meta, payload } = group.spec;
  const restartPolicy = definition.restartPolicy ?? group.spec.restartPolicy;
  const constraints = constraintsOf(group.spec, definition);
  return {
    ...definition,
    jobName: group.spec.jobName,
    taskGroupName: group.metadata.name ?? "",
    ...(restartPolicy === undefined ? {} : { restartPolicy }),
    ...(reschedulePolicy === undefined ? {} : { reschedulePolicy }),
    ...(disconnect === undefined ? {} : { disconnect }),
    ...(meta === undefined ? {} : { meta }),
    ...(payload === undefined || definition.dispatchPayload === undefined ? {} : { payload }),
    ...(constraints.length === 0 ? {} : { constraints }),
    ...(type === undefined ? {} : { type }),
    ...(robot === undefined ? {} : { targetRobot: robot }),
    ...(robotSelector === undefined ? {} : { robotSelector }),
    ...(priority === undefined ? {} : { priority }),
  };
}

function tallyOfTask(task: DeepReadonly<Task> | undefined): Tally {
  const status = task?.status;
  const started = status?.startedAt === undefined ? {} : { startedAt: status.startedAt };
  const finished = status?.finishedAt === undefined ? {} : { completedAt: status.finishedAt };
  const lostCondition = status?.conditions?.find(({ type, status: isLost }) => type === "Lost" && isLost === "True");
  const lost = lostCondition === undefined ? {} : { lost: 1, lostSince: lostCondition.lastTransitionTime };
  switch (status?.state) {
    case "running":
      return { ...emptyTally, total: 1, running: 1, ...started, ...lost };
    case "dispatching":
      return { ...emptyTally, total: 1, pending: 1, ...started, ...lost };
    case "completed":
      return { ...emptyTally, total: 1, succeeded: 1, ...started, ...finished };
    case "failed":
      return { ...emptyTally, total: 1, failed: 1, ...started, ...finished };
    default:
      return { ...emptyTally, total: 1, pending: 1, ...started };
  }
}
