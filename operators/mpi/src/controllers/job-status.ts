import {
  type Condition,
  type DeepReadonly,
  findCondition,
  isConditionTrue,
  jsonEquals,
  setCondition,
} from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { labels } from "../api/names.ts";
import type { JobStatus, RhinoJob } from "../api/rhino-job.ts";
import type { RhinoJobObservation } from "./observation.ts";
import { isReady } from "./pod-trouble.ts";

/** Status of a RhinoJob. */
export type Status = NonNullable<RhinoJob["status"]>;

/** State of a job that has not ended. */
export interface Progress {
  readonly jobStatus: JobStatus;
  readonly reason: string;
  readonly message: string;
}

/** Conditions to set, by type. */
export type ConditionChanges = Readonly<Record<string, boolean>>;

/** The status with the given fields and conditions. The names and counts of Pods are those observed. */
export function statusWith(
  observation: RhinoJobObservation,
  fields: Partial<Status>,
  changes: ConditionChanges,
  reason: string,
  message: string,
): Status {
  const { job, now } = observation;
  const generation = job.metadata.generation;
  let conditions = job.status?.conditions as readonly Condition[] | undefined;
  for (const [type, status] of Object.entries(changes))
    conditions = setCondition(conditions, { type, status, reason, message, observedGeneration: generation }, now);
  return { ...base(observation), ...fields, message, conditions: [...(conditions ?? [])] };
}

/** How far the launch of an attempt has come. */
export interface LaunchProgress {
  /** Whether mpiexec has written the launch lines. */
  readonly isLauncherReady: boolean;
  readonly areWorkersCreated: boolean;
}

/** How far the launch of the current attempt had come when its status was written, or as its Pods show now. */
export function launchProgress({ job, launcherPods }: RhinoJobObservation): LaunchProgress {
  const { conditions } = job.status ?? {};
  const wasReady = isConditionTrue(conditions, "LauncherReady");
  return {
    isLauncherReady: wasReady || launcherPods.some(isReady),
    // Jobs of earlier versions have no such condition; their workers were created when the launcher was ready.
    areWorkersCreated:
      findCondition(conditions, "WorkersCreated") === undefined ? wasReady : isConditionTrue(conditions, "WorkersCreated"),
  };
}

/** Status of a job that has not ended. `launch` defaults to {@link launchProgress}. */
export function progress(
  observation: RhinoJobObservation,
  step: Progress,
  launch: LaunchProgress = launchProgress(observation),
): { readonly status?: Status } {
  const { job, now } = observation;
  const generation = job.metadata.generation;
  const isRunning = step.jobStatus === "Running";
  let conditions = job.status?.conditions as readonly Condition[] | undefined;
  const set = (type: string, status: boolean, reason: string, message: string): void => {
    conditions = setCondition(conditions, { type, status, reason, message, observedGeneration: generation }, now);
  };
  set("Created", true, "Created", "the job was accepted");
  const { isLauncherReady, areWorkersCreated } = launch;
  set(
    "LauncherReady",
    isLauncherReady,
    isLauncherReady ? "LinesRead" : step.reason,
    isLauncherReady ? "mpiexec has written its launch lines" : step.message,
  );
  set(
    "WorkersCreated",
    areWorkersCreated,
    areWorkersCreated ? "WorkersCreated" : step.reason,
    areWorkersCreated ? "the workers were created" : step.message,
  );
  set("Running", isRunning, step.reason, step.message);
  return changed(job, {
    ...base(observation),
    jobStatus: step.jobStatus,
    message: step.message,
    conditions: [...(conditions ?? [])],
  });
}

/** Status of a job that waits for the admission of an attempt by the queue. */
export function waitingForAdmission(observation: RhinoJobObservation): { readonly status?: Status } {
  const { reason, name = "" } = observation.job.status?.queue ?? {};
  const message = `waits for admission by queue ${name}${reason === undefined ? "" : `: ${reason}`}`;
  return waitingToStart(observation, "Queued", message);
}

/** Status of a job whose next attempt cannot start yet. Its time has not started if no attempt has. */
export function waitingToStart(
  observation: RhinoJobObservation,
  reason: string,
  message: string,
): { readonly status?: Status } {
  const { job } = observation;
  const status = statusWith(observation, { jobStatus: "Pending" }, { Created: true, Running: false }, reason, message);
  const { startTime: _, attempt: __, ...fields } = status;
  const { startTime, attempt } = job.status ?? {};
  return changed(job, {
    ...fields,
    ...(startTime === undefined ? {} : { startTime }),
    ...(attempt === undefined ? {} : { attempt }),
  });
}

/** The status as a write, unless it is the stored one. The queue writes its part itself. */
export function changed(job: DeepReadonly<RhinoJob>, status: Status): { readonly status?: Status } {
  const { queue: _, ...before } = job.status ?? {};
  return jsonEquals(status, before) ? {} : { status };
}

function base({ job, launcherPods, workerPods, now }: RhinoJobObservation): Status {
  const { attempt, failures } = job.status ?? {};
  return {
    // Written with the decision to create the launcher, so that a launcher that is missing later is known to be deleted.
    startTime: job.status?.startTime ?? rfc3339(now),
    attempt: attempt ?? 1,
    ...(failures === undefined ? {} : { failures }),
    launcherPodNames: namesOf(launcherPods),
    workerPodNames: namesOf(workerPods),
    replicaStatuses: {
      Launcher: replicaStatus(job, "launcher", launcherPods),
      Worker: replicaStatus(job, "worker", workerPods),
    },
    ...(job.metadata.generation === undefined ? {} : { observedGeneration: job.metadata.generation }),
  };
}

function namesOf(pods: readonly DeepReadonly<PodObject>[]): string[] {
  return pods.map((pod) => pod.metadata.name ?? "").sort();
}

function replicaStatus(job: DeepReadonly<RhinoJob>, type: "launcher" | "worker", pods: readonly DeepReadonly<PodObject>[]) {
  const count = (phase: string): number => pods.filter(({ status }) => status?.phase === phase).length;
  return {
    active: count("Running"),
    succeeded: count("Succeeded"),
    failed: count("Failed"),
    selector: `${labels.uid}=${job.metadata.uid ?? ""},${labels.type}=${type}`,
  };
}

/** RFC 3339 time with seconds. */
export function rfc3339(ms: number): string {
  return formatTime(ms);
}
