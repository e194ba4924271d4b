import type { DeepReadonly } from "@keelson/api-machinery";
import type { Job } from "../api/job.ts";
import type { Task } from "../api/task.ts";
import type { Demand } from "./placement.ts";
import { parseResourceRequest } from "./resource-request.ts";

/** A Task's requirements on its robot. `job` is the Job that `spec.jobName` names, if it exists. */
export function demandOf({ spec, status }: DeepReadonly<Task>, job: DeepReadonly<Job> | undefined): Demand {
  const { targetRobot = "" } = spec;
  const movedFrom = status?.movedFrom;
  return {
    selector: spec.robotSelector ?? job?.spec.robotSelector ?? {},
    constraints: spec.constraints ?? [],
    driver: spec.driver,
    ...(spec.initTasks === undefined ? {} : { hasInitTasks: true }),
    ...(spec.resources?.devices === undefined ? {} : { devices: spec.resources.devices }),
    ...(spec.affinities === undefined ? {} : { affinities: spec.affinities }),
    ...(spec.spreads === undefined ? {} : { spreads: spec.spreads }),
    ...parseResourceRequest(spec.resources),
    ...(movedFrom === undefined && targetRobot !== "" ? { pinned: targetRobot } : {}),
    ...(movedFrom === undefined ? {} : { avoided: movedFrom }),
    ...(spec.preferredRobot === undefined ? {} : { preferred: spec.preferredRobot }),
  };
}
