import type { DeepReadonly } from "@keelson/api-machinery";
import { isLongRunning, isPerRobot, type Job, type TaskGroupTemplate } from "../api/job.ts";
import type { TaskGroup } from "../api/taskgroup.ts";
import { completeRestartPolicy } from "./restart-policy.ts";

/** The spec of a Job's TaskGroup, apart from its revision and rollout. */
export function taskGroupSpecOf(
  jobName: string,
  job: DeepReadonly<Job["spec"]>,
  template: DeepReadonly<TaskGroupTemplate>,
): DeepReadonly<TaskGroup["spec"]> {
  const { name, count, tasks, restartPolicy, meta, update: _update, ...rest } = template;
  const spreads = [...(job.spreads ?? []), ...(template.spreads ?? [])];
  return {
    jobName,
    groupName: name,
    count,
    tasks,
    robotSelector: job.robotSelector ?? {},
    ...(isLongRunning(job.type) || isPerRobot(job.type) ? { type: job.type } : {}),
    ...(job.payload === undefined ? {} : { payload: job.payload }),
    ...(job.priority === undefined ? {} : { priority: job.priority }),
    ...(job.preemptionPolicy === undefined ? {} : { preemptionPolicy: job.preemptionPolicy }),
    restartPolicy: completeRestartPolicy(restartPolicy, job.type),
    ...(job.meta === undefined && meta === undefined ? {} : { meta: { ...job.meta, ...meta } }),
    ...rest,
    ...(spreads.length === 0 ? {} : { spreads }),
  };
}
