import { type Condition, type DeepReadonly, isControlledBy, jsonEquals, setCondition } from "@keelson/api-machinery";
import type { JobObject, PodObject } from "@keelson/api-machinery/kinds";
import type { JobStatus, RhinoJob } from "../api/rhino-job.ts";
import { childNames } from "./child-names.ts";
import { jobOutcome } from "./job-outcome.ts";
import { exitCodeOf, isReady, type PodTrouble, podTrouble, terminationMessage } from "./pod-trouble.ts";

/** What a decision about a RhinoJob is made from. Jobs are those that have its names, whoever owns them. */
export interface RhinoJobObservation {
  readonly job: DeepReadonly<RhinoJob>;
  readonly launcher: DeepReadonly<JobObject> | undefined;
  readonly workers: DeepReadonly<JobObject> | undefined;
  readonly launcherPods: readonly DeepReadonly<PodObject>[];
  readonly workerPods: readonly DeepReadonly<PodObject>[];
  readonly now: number;
}

/** Something worth an event. */
export interface Happening {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

/** What to do, in this order. */
export interface RhinoJobDecision {
  /** Make the Secret and the launcher's Job. */
  readonly createLauncher?: true;
  /** Make the workers' Job, for the launcher at this address. */
  readonly createWorkers?: { readonly launcherIP: string };
  /** Jobs to suspend: what still runs of them has no use any more. */
  readonly suspend: readonly ("launcher" | "workers")[];
  readonly status?: NonNullable<RhinoJob["status"]>;
  readonly happenings: readonly Happening[];
  /** The time to live has passed: delete the RhinoJob, and with it everything it owns. */
  readonly isExpired?: true;
  readonly requeueAfterMs?: number;
}

type Status = NonNullable<RhinoJob["status"]>;

/** How long a launcher may go on once a worker has failed: it sees that by itself and says better what happened. */
export const workersFailedGraceMs = 15_000;

const nothing: RhinoJobDecision = { suspend: [], happenings: [] };

/**
 * Decides about a RhinoJob.
 *
 * **Guarantees**: a job that has ended stays as it ended. It is Completed only where the launcher ended with 0, which it does
 * only where mpiexec did. Launcher and workers are made once: one that somebody deletes is not made again, as its part of the
 * run cannot be. The time to live counts from the end, so a job that runs is never deleted for it.
 */
export function decideRhinoJob(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, launcher, workers, launcherPods, now } = observation;
  if (job.metadata.deletionTimestamp !== undefined) return nothing;
  const before = job.status?.jobStatus;
  if (before === "Completed" || before === "Failed") return afterTheEnd(observation);

  const names = childNames(job.metadata.name ?? "", job.metadata.uid ?? "");
  const taken = [launcher, workers].find((child) => child !== undefined && !isControlledBy(child, job));
  if (taken !== undefined)
    return ended(observation, "Failed", "NameTaken", `the Job ${taken.metadata.name} belongs to somebody else`);

  if (launcher === undefined) {
    if (job.status?.startTime !== undefined || workers !== undefined)
      return ended(observation, "Failed", "LauncherDeleted", `the Job ${names.launcher} is gone`);
    return {
      ...nothing,
      createLauncher: true,
      ...progress(observation, { jobStatus: "Pending", reason: "LauncherCreated", message: "the launcher is being made" }),
      happenings: [{ type: "Normal", reason: "LauncherCreated", note: `made the Job ${names.launcher}` }],
    };
  }

  const outcome = jobOutcome(launcher);
  if (outcome?.kind === "complete") return ended(observation, "Completed", "Completed", "the program ended with 0", 0);
  if (outcome?.kind === "failed") return launcherFailed(observation, outcome.reason, outcome.message);
  if (launcher.metadata.deletionTimestamp !== undefined)
    return ended(observation, "Failed", "LauncherDeleted", `the Job ${names.launcher} was deleted`);

  if (workers === undefined) {
    if (job.status?.conditions?.some(({ type, status }) => type === "LauncherReady" && status === "True"))
      return ended(observation, "Failed", "WorkersDeleted", `the Job ${names.workers} is gone`);
    const ready = launcherPods.find((pod) => isReady(pod) && pod.status?.podIP !== undefined);
    const launcherIP = ready?.status?.podIP;
    if (launcherIP === undefined) return { ...nothing, ...progress(observation, waitingForLauncher(launcherPods)) };
    return {
      ...nothing,
      createWorkers: { launcherIP },
      ...progress(observation, { jobStatus: "Pending", reason: "WorkersCreated", message: "the workers are being made" }, true),
      happenings: [
        { type: "Normal", reason: "WorkersCreated", note: `made the Job ${names.workers} of ${job.spec.parallelism}` },
      ],
    };
  }

  const workersOutcome = jobOutcome(workers);
  if (workersOutcome?.kind === "failed") {
    const left = Date.parse(workersOutcome.at ?? "") + workersFailedGraceMs - now;
    if (!(left > 0)) return workersFailed(observation);
    return { ...nothing, ...progress(observation, runningOrWaiting(observation), true), requeueAfterMs: left };
  }
  return { ...nothing, ...progress(observation, runningOrWaiting(observation), true) };
}

/** The decision about a job whose launcher or workers the server refuses for good: it fails and says why. */
export function decideRefused(observation: RhinoJobObservation, message: string): RhinoJobDecision {
  return ended(observation, "Failed", "Refused", message);
}

/** What there is to do for a job that has ended: end what still runs of it, and delete it in time. */
function afterTheEnd({ job, launcher, workers, now }: RhinoJobObservation): RhinoJobDecision {
  const suspend = stillActive(job, launcher, workers);
  const { ttl } = job.spec;
  const end = Date.parse(job.status?.completionTime ?? "");
  if (ttl === 0 || Number.isNaN(end)) return { ...nothing, suspend };
  const left = end + ttl * 1000 - now;
  return left > 0 ? { ...nothing, suspend, requeueAfterMs: left } : { ...nothing, isExpired: true };
}

function stillActive(
  job: DeepReadonly<RhinoJob>,
  launcher: DeepReadonly<JobObject> | undefined,
  workers: DeepReadonly<JobObject> | undefined,
): ("launcher" | "workers")[] {
  const isActive = (child: DeepReadonly<JobObject> | undefined): boolean =>
    child !== undefined && isControlledBy(child, job) && jobOutcome(child) === undefined && child.spec.suspend !== true;
  return [...(isActive(launcher) ? ["launcher" as const] : []), ...(isActive(workers) ? ["workers" as const] : [])];
}

interface Progress {
  readonly jobStatus: JobStatus;
  readonly reason: string;
  readonly message: string;
}

function waitingForLauncher(pods: readonly DeepReadonly<PodObject>[]): Progress {
  const trouble = pods.map(podTrouble).find((each) => each !== undefined);
  if (trouble !== undefined) return waiting("the launcher", trouble);
  const isRunning = pods.some((pod) => pod.status?.phase === "Running");
  return {
    jobStatus: "Pending",
    reason: "LauncherStarting",
    message: isRunning ? "the launcher runs and reads what mpiexec wants to start" : "the launcher does not run yet",
  };
}

function waiting(who: string, trouble: PodTrouble): Progress {
  return {
    jobStatus: trouble.isImage ? "ImageError" : "Pending",
    reason: trouble.reason,
    message: `${who} cannot start: ${trouble.reason}${trouble.message ? `: ${trouble.message}` : ""}`,
  };
}

function runningOrWaiting({ job, workerPods }: RhinoJobObservation): Progress {
  const running: Progress = { jobStatus: "Running", reason: "Running", message: `${job.spec.parallelism} ranks run` };
  if (job.status?.jobStatus === "Running") return running;
  const started = workerPods.filter(({ status }) => ["Running", "Succeeded", "Failed"].includes(status?.phase ?? "")).length;
  if (started >= job.spec.parallelism) return running;
  for (const pod of workerPods) {
    const trouble = podTrouble(pod);
    if (trouble !== undefined) return waiting(`the worker ${pod.metadata.name}`, trouble);
  }
  return {
    jobStatus: "Pending",
    reason: "WorkersStarting",
    message: `${started} of ${job.spec.parallelism} workers run`,
  };
}

function launcherFailed(observation: RhinoJobObservation, jobReason: string, jobMessage: string): RhinoJobDecision {
  const codes = observation.launcherPods.map(exitCodeOf).filter((code) => code !== undefined);
  const said = observation.launcherPods.map(terminationMessage).find((text) => text !== undefined);
  const exitCode = codes.at(-1);
  // The Job says no more than that its Pod failed; where it has another reason (a deadline), that is the one.
  const reason = jobReason === "BackoffLimitExceeded" || jobReason === "" ? "ProgramFailed" : jobReason;
  const what = exitCode === undefined || reason !== "ProgramFailed" ? jobMessage : `mpiexec ended with ${exitCode}`;
  return ended(observation, "Failed", reason, said === undefined ? what : `${what}: ${said}`, exitCode);
}

function workersFailed(observation: RhinoJobObservation): RhinoJobDecision {
  const failed = observation.workerPods.find((pod) => pod.status?.phase === "Failed");
  const said = failed === undefined ? undefined : terminationMessage(failed);
  const code = failed === undefined ? undefined : exitCodeOf(failed);
  const who =
    failed === undefined ? "a worker is gone" : `the worker ${failed.metadata.name} ended with ${code ?? "no status"}`;
  return ended(observation, "Failed", "WorkerFailed", said === undefined ? who : `${who}: ${said}`);
}

/** Status of a job on its way. `wasReady`: its launcher was ready, once and for all. */
function progress(observation: RhinoJobObservation, step: Progress, wasReady = false): { readonly status?: Status } {
  const { job, now } = observation;
  const generation = job.metadata.generation;
  const isRunning = step.jobStatus === "Running";
  let conditions: readonly Condition[] | undefined = job.status?.conditions as readonly Condition[] | undefined;
  const set = (type: string, status: boolean, reason: string, message: string): void => {
    conditions = setCondition(conditions, { type, status, reason, message, observedGeneration: generation }, now);
  };
  set("LauncherReady", wasReady, wasReady ? "LinesRead" : step.reason, wasReady ? "the workers can join" : step.message);
  set("Running", isRunning, step.reason, step.message);
  return changed(job, {
    ...base(observation),
    jobStatus: step.jobStatus,
    message: step.message,
    conditions: [...(conditions ?? [])],
  });
}

function ended(
  observation: RhinoJobObservation,
  jobStatus: "Completed" | "Failed",
  reason: string,
  message: string,
  exitCode?: number,
): RhinoJobDecision {
  const { job, launcher, workers, now } = observation;
  const text = message.slice(0, 1024);
  let conditions: readonly Condition[] | undefined = job.status?.conditions as readonly Condition[] | undefined;
  const set = (type: string, status: boolean): void => {
    conditions = setCondition(
      conditions,
      { type, status, reason, message: text, observedGeneration: job.metadata.generation },
      now,
    );
  };
  set("Running", false);
  set("Completed", jobStatus === "Completed");
  set("Failed", jobStatus === "Failed");
  return {
    ...nothing,
    suspend: stillActive(job, launcher, workers),
    ...changed(job, {
      ...base(observation),
      jobStatus,
      message: text,
      ...(exitCode === undefined ? {} : { exitCode }),
      completionTime: rfc3339(now),
      conditions: [...(conditions ?? [])],
    }),
    happenings: [{ type: jobStatus === "Completed" ? "Normal" : "Warning", reason, note: text }],
  };
}

function base({ job, launcherPods, workerPods, now }: RhinoJobObservation): Status {
  const namesOf = (pods: readonly DeepReadonly<PodObject>[]): string[] => pods.map((pod) => pod.metadata.name ?? "").sort();
  return {
    // Written with the decision to make the launcher, so that a launcher that is missing later is known to be gone.
    startTime: job.status?.startTime ?? rfc3339(now),
    launcherPodNames: namesOf(launcherPods),
    workerPodNames: namesOf(workerPods),
    ...(job.metadata.generation === undefined ? {} : { observedGeneration: job.metadata.generation }),
  };
}

function changed(job: DeepReadonly<RhinoJob>, status: Status): { readonly status?: Status } {
  return jsonEquals(status, job.status) ? {} : { status };
}

function rfc3339(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
