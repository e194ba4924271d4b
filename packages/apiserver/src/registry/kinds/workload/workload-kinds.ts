import type { ServedResource } from "../../served-resource.ts";
import { controllerRevisions } from "./controller-revisions.ts";
import { cronJobs } from "./cron-jobs.ts";
import { daemonSets } from "./daemon-sets.ts";
import { deployments } from "./deployments.ts";
import { jobs } from "./jobs.ts";
import { replicaSets, replicationControllers } from "./replica-sets.ts";
import { statefulSets } from "./stateful-sets.ts";

/** Workload kinds: apps/v1, batch/v1, and ReplicationControllers. */
export function workloadKinds(): readonly ServedResource[] {
  return [replicationControllers, controllerRevisions, daemonSets, deployments, replicaSets, statefulSets, cronJobs, jobs];
}
