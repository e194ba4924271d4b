import type { DeepReadonly } from "@keelson/api-machinery";
import { isPerRobot } from "../api/job.ts";
import { labels } from "../api/names.ts";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import type { TaskDefinition } from "../api/task-definition.ts";
import type { TaskGroup } from "../api/taskgroup.ts";
import { isEligible } from "../placement/placement.ts";

/** A copy of a task that a group should have. */
export interface GroupCopy {
  readonly definition: DeepReadonly<TaskDefinition>;
  /** Index of the copy, or the name of its robot in a group with one copy per robot. */
  readonly index: string;
  /** The robot that the Task is pinned to. */
  readonly robot?: string;
}

/** The Tasks that a group should have. */
export function copiesOf(spec: DeepReadonly<TaskGroup["spec"]>, robots: readonly DeepReadonly<Robot>[]): readonly GroupCopy[] {
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
      devices: definition.resources?.devices ?? [],
      hasInitTasks: spec.initTasks !== undefined,
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

/** Tasks run on their own robots choice, so each of them needs the disk that its group requests. */
function resourcesOf(
  { ephemeralDisk }: DeepReadonly<TaskGroup["spec"]>,
  { resources }: DeepReadonly<TaskDefinition>,
): { readonly resources?: DeepReadonly<NonNullable<TaskDefinition["resources"]>> } {
  if (ephemeralDisk?.sizeMB === undefined || resources?.disk !== undefined) return {};
  return { resources: { ...resources, disk: ephemeralDisk.sizeMB } };
}

/** The spec of a copy's Task. `robot` is the robot that it is pinned to. */
export function specOf(
  group: Pick<DeepReadonly<TaskGroup>, "metadata" | "spec">,
  definition: DeepReadonly<TaskDefinition>,
  robot: string | undefined,
): DeepReadonly<Task["spec"]> {
  const { robotSelector, priority, preemptionPolicy, type, reschedulePolicy, disconnect, meta, payload, initTasks } =
    group.spec;
  const restartPolicy = definition.restartPolicy ?? group.spec.restartPolicy;
  const constraints = constraintsOf(group.spec, definition);
  const affinities = [...(group.spec.affinities ?? []), ...(definition.affinities ?? [])];
  const spreads = [...(group.spec.spreads ?? []), ...(definition.spreads ?? [])];
  return {
    ...definition,
    ...resourcesOf(group.spec, definition),
    jobName: group.spec.jobName,
    taskGroupName: group.metadata.name ?? "",
    ...(initTasks === undefined ? {} : { initTasks }),
    ...(restartPolicy === undefined ? {} : { restartPolicy }),
    ...(reschedulePolicy === undefined ? {} : { reschedulePolicy }),
    ...(disconnect === undefined ? {} : { disconnect }),
    ...(meta === undefined ? {} : { meta }),
    ...(payload === undefined || definition.dispatchPayload === undefined ? {} : { payload }),
    ...(constraints.length === 0 ? {} : { constraints }),
    ...(affinities.length === 0 ? {} : { affinities }),
    ...(spreads.length === 0 ? {} : { spreads }),
    ...(type === undefined ? {} : { type }),
    ...(robot === undefined ? {} : { targetRobot: robot }),
    ...(robotSelector === undefined ? {} : { robotSelector }),
    ...(priority === undefined ? {} : { priority }),
    ...(preemptionPolicy === undefined ? {} : { preemptionPolicy }),
  };
}
