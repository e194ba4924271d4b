import { type Condition, type DeepReadonly, isControlledBy, jsonEquals, setCondition } from "@keelson/api-machinery";
import type { JobObject, PodObject } from "@keelson/api-machinery/kinds";
import type { JobStatus, RhinoJob } from "../api/rhino-job.ts";
import { launcherLostExitCode } from "../launch/exit-codes.ts";
import { childNames } from "./child-names.ts";
import { jobOutcome } from "./job-outcome.ts";
import { exitCodeOf, isCreating, isReady, type PodTrouble, podTrouble, terminationMessage } from "./pod-trouble.ts";
import { hasFailedWorker, workerFailureTime } from "./worker-failure.ts";

/** Input of {@link decideRhinoJob}. The Jobs are those with the RhinoJob's child names, regardless of their owner. */
export interface RhinoJobObservation {
  readonly job: DeepReadonly<RhinoJob>;
  readonly launcher: DeepReadonly<JobObject> | undefined;
  readonly workers: DeepReadonly<JobObject> | undefined;
  readonly launcherPods: readonly DeepReadonly<PodObject>[];
  readonly workerPods: readonly DeepReadonly<PodObject>[];
  /** Why a volume of a Pod cannot be mounted, from the Pod's events. Default: no failures are known. */
  readonly mountFailureOf?: (pod: DeepReadonly<PodObject>) => string | undefined;
  readonly now: number;
}

/** An event to record. */
export interface EventDraft {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

/** Writes, in this order. */
export interface RhinoJobDecision {
  /** Create the Secret and the launcher's Job. */
  readonly createLauncher?: true;
  /** Create the workers' Job, for the launcher at this address. */
  readonly createWorkers?: { readonly launcherIP: string };
  /** Jobs to suspend, which stops their Pods. */
  readonly suspend: readonly ("launcher" | "workers")[];
  readonly status?: NonNullable<RhinoJob["status"]>;
  readonly events: readonly EventDraft[];
  /** The ttl has passed: delete the RhinoJob with its children. */
  readonly isExpired?: true;
  readonly requeueAfterMs?: number;
}

type Status = NonNullable<RhinoJob["status"]>;

/** Time that the launcher has to report the failure of a worker, which it can explain better than the worker's Pod. */
const workersFailedGraceMs = 15_000;

/** Time that workers have to end after the job has. They notice a lost launcher after 3 s and give their ranks 2 s. */
const workersEndGraceMs = 6000;

/** Interval for looking up mount failures of a Pod that is being created. */
export const mountCheckIntervalMs = 3000;

const noWrites: RhinoJobDecision = { suspend: [], events: [] };

/**
 * Decides about a RhinoJob.
 *
 * **Guarantees**: the result of a job is final. It is Completed only if the launcher exited with 0, which implies that mpiexec did.
 * Launcher and workers are created once; a deleted one fails the job, because its part of the run cannot be repeated. The ttl counts
 * from the end, so it never deletes a running job.
 */
export function decideRhinoJob(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, launcher, workers, launcherPods, now } = observation;
  if (job.metadata.deletionTimestamp !== undefined) return noWrites;
  const before = job.status?.jobStatus;
  if (before === "Completed" || before === "Failed") return afterTheEnd(observation);

  const names = childNames(job.metadata.name ?? "", job.metadata.uid ?? "");
  const taken = [launcher, workers].find((child) => child !== undefined && !isControlledBy(child, job));
  if (taken !== undefined) return ended(observation, "Failed", "NameTaken", `Job ${taken.metadata.name} has another owner`);

  if (launcher === undefined) {
    if (job.status?.startTime !== undefined || workers !== undefined)
      return ended(observation, "Failed", "LauncherDeleted", `Job ${names.launcher} was deleted`);
    return {
      ...noWrites,
      createLauncher: true,
      ...progress(observation, { jobStatus: "Pending", reason: "LauncherCreated", message: "creating the launcher" }),
      events: [{ type: "Normal", reason: "LauncherCreated", note: `created Job ${names.launcher}` }],
    };
  }

  const outcome = jobOutcome(launcher);
  if (outcome?.kind === "complete") return ended(observation, "Completed", "Completed", "the program exited with 0", 0);
  if (outcome?.kind === "failed") return launcherFailed(observation, outcome.reason, outcome.message);
  if (launcher.metadata.deletionTimestamp !== undefined)
    return ended(observation, "Failed", "LauncherDeleted", `Job ${names.launcher} was deleted`);

  if (workers === undefined) {
    if (job.status?.conditions?.some(({ type, status }) => type === "LauncherReady" && status === "True"))
      return ended(observation, "Failed", "WorkersDeleted", `Job ${names.workers} was deleted`);
    const ready = launcherPods.find((pod) => isReady(pod) && pod.status?.podIP !== undefined);
    const launcherIP = ready?.status?.podIP;
    if (launcherIP === undefined) {
      return { ...noWrites, ...progress(observation, waitingForLauncher(observation)), ...recheck(launcherPods) };
    }
    return {
      ...noWrites,
      createWorkers: { launcherIP },
      ...progress(observation, { jobStatus: "Pending", reason: "WorkersCreated", message: "creating the workers" }, true),
      events: [
        { type: "Normal", reason: "WorkersCreated", note: `created Job ${names.workers} with ${job.spec.parallelism} workers` },
      ],
    };
  }

  if (hasFailedWorker(workers, observation.workerPods)) {
    // Workers that lost the launcher have waited for it already.
    const graceMs = observation.workerPods.some((pod) => exitCodeOf(pod) === launcherLostExitCode) ? 0 : workersFailedGraceMs;
    const left = workerFailureTime(workers, observation.workerPods) + graceMs - now;
    if (!(left > 0)) return workersFailed(observation);
    return { ...noWrites, ...progress(observation, runningOrWaiting(observation), true), requeueAfterMs: left };
  }
  return { ...noWrites, ...progress(observation, runningOrWaiting(observation), true), ...recheck(observation.workerPods) };
}

/** Events do not lead to a reconcile, so a Pod that is being created is checked again. */
function recheck(pods: readonly DeepReadonly<PodObject>[]): { readonly requeueAfterMs?: number } {
  return pods.some(isCreating) ? { requeueAfterMs: mountCheckIntervalMs } : {};
}

/** The decision about a job whose launcher or workers the API server rejects permanently: it fails with the reason. */
export function decideRefused(observation: RhinoJobObservation, message: string): RhinoJobDecision {
  return ended(observation, "Failed", "Refused", message);
}

/** Stops the remaining Pods of a job that has ended, and deletes the job when its ttl has passed. */
function afterTheEnd(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, now } = observation;
  const { ttl } = job.spec;
  const end = Date.parse(job.status?.completionTime ?? "");
  const { suspend, requeueAfterMs: graceLeft } = stopRemaining(observation, end);
  const left = ttl === 0 || Number.isNaN(end) ? undefined : end + ttl * 1000 - now;
  if (left !== undefined && left <= 0) return { ...noWrites, isExpired: true };
  const waits = [left, graceLeft].filter((each) => each !== undefined);
  return { ...noWrites, suspend, ...(waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) }) };
}

/** What to stop of a job that ended at `end`. Workers end with their launcher; a Pod that is stopped loses its log. */
function stopRemaining(observation: RhinoJobObservation, end: number): Pick<RhinoJobDecision, "suspend" | "requeueAfterMs"> {
  const { job, launcher, workers, workerPods, now } = observation;
  const isActive = (child: DeepReadonly<JobObject> | undefined): boolean =>
    child !== undefined && isControlledBy(child, job) && jobOutcome(child) === undefined && child.spec.suspend !== true;
  const first = isActive(launcher) ? ["launcher" as const] : [];
  if (!isActive(workers)) return { suspend: first };
  const left = end + workersEndGraceMs - now;
  const areEnding = workerPods.some(
    ({ metadata, status }) => status?.phase === "Running" && metadata.deletionTimestamp === undefined,
  );
  return areEnding && left > 0 ? { suspend: first, requeueAfterMs: left } : { suspend: [...first, "workers"] };
}

interface Progress {
  readonly jobStatus: JobStatus;
  readonly reason: string;
  readonly message: string;
}

/** Why a Pod does not start, including a volume that cannot be mounted, which its status does not say. */
function troubleOf(pod: DeepReadonly<PodObject>, { mountFailureOf }: RhinoJobObservation): PodTrouble | undefined {
  const trouble = podTrouble(pod);
  const failure = trouble === undefined && isCreating(pod) ? mountFailureOf?.(pod) : undefined;
  return failure === undefined ? trouble : { reason: "FailedMount", message: failure, isImage: false };
}

function waitingForLauncher(observation: RhinoJobObservation): Progress {
  const pods = observation.launcherPods;
  const trouble = pods.map((pod) => troubleOf(pod, observation)).find((each) => each !== undefined);
  if (trouble !== undefined) return waiting("the launcher", trouble);
  const isRunning = pods.some((pod) => pod.status?.phase === "Running");
  return {
    jobStatus: "Pending",
    reason: "LauncherStarting",
    message: isRunning ? "the launcher is running and waits for mpiexec's launch lines" : "the launcher is not running yet",
  };
}

function waiting(subject: string, trouble: PodTrouble): Progress {
  return {
    jobStatus: trouble.isImage ? "ImageError" : "Pending",
    reason: trouble.reason,
    message: `${subject} cannot start: ${trouble.reason}${trouble.message ? `: ${trouble.message}` : ""}`,
  };
}

function runningOrWaiting(observation: RhinoJobObservation): Progress {
  const { job, workerPods } = observation;
  const running: Progress = { jobStatus: "Running", reason: "Running", message: `${job.spec.parallelism} ranks running` };
  if (job.status?.jobStatus === "Running") return running;
  const started = workerPods.filter(({ status }) => ["Running", "Succeeded", "Failed"].includes(status?.phase ?? "")).length;
  if (started >= job.spec.parallelism) return running;
  for (const pod of workerPods) {
    const trouble = troubleOf(pod, observation);
    if (trouble !== undefined) return waiting(`worker ${pod.metadata.name}`, trouble);
  }
  return {
    jobStatus: "Pending",
    reason: "WorkersStarting",
    message: `${started} of ${job.spec.parallelism} workers running`,
  };
}

function launcherFailed(observation: RhinoJobObservation, jobReason: string, jobMessage: string): RhinoJobDecision {
  const codes = observation.launcherPods.map(exitCodeOf).filter((code) => code !== undefined);
  const detail = observation.launcherPods.map(terminationMessage).find((text) => text !== undefined);
  const exitCode = codes.at(-1);
  // BackoffLimitExceeded only means that the Pod failed. Any other reason (a deadline) is the cause.
  const reason = jobReason === "BackoffLimitExceeded" || jobReason === "" ? "ProgramFailed" : jobReason;
  // The launcher names the failed rank with its exit code.
  if (reason === "ProgramFailed" && detail?.startsWith("rank ")) return ended(observation, "Failed", reason, detail, exitCode);
  const summary = exitCode === undefined || reason !== "ProgramFailed" ? jobMessage : `mpiexec exited with ${exitCode}`;
  return ended(observation, "Failed", reason, detail === undefined ? summary : `${summary}: ${detail}`, exitCode);
}

function workersFailed(observation: RhinoJobObservation): RhinoJobDecision {
  const failed = observation.workerPods.find((pod) => pod.status?.phase === "Failed");
  const detail = failed === undefined ? undefined : terminationMessage(failed);
  const code = failed === undefined ? undefined : exitCodeOf(failed);
  const summary =
    failed === undefined
      ? `${observation.workers?.status?.failedIndexes ? `worker ${observation.workers.status.failedIndexes}` : "a worker"} was deleted`
      : `worker ${failed.metadata.name} exited with ${code ?? "an unknown status"}`;
  return ended(observation, "Failed", "WorkerFailed", detail === undefined ? summary : `${summary}: ${detail}`);
}

/** Status of a job that has not ended. `wasReady`: its launcher was ready at some time. */
function progress(observation: RhinoJobObservation, step: Progress, wasReady = false): { readonly status?: Status } {
  const { job, now } = observation;
  const generation = job.metadata.generation;
  const isRunning = step.jobStatus === "Running";
  let conditions: readonly Condition[] | undefined = job.status?.conditions as readonly Condition[] | undefined;
  const set = (type: string, status: boolean, reason: string, message: string): void => {
    conditions = setCondition(conditions, { type, status, reason, message, observedGeneration: generation }, now);
  };
  set("LauncherReady", wasReady, wasReady ? "LinesRead" : step.reason, wasReady ? "workers can join" : step.message);
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
  const { job, now } = observation;
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
    ...noWrites,
    ...stopRemaining(observation, now),
    ...changed(job, {
      ...base(observation),
      jobStatus,
      message: text,
      ...(exitCode === undefined ? {} : { exitCode }),
      completionTime: rfc3339(now),
      conditions: [...(conditions ?? [])],
    }),
    events: [{ type: jobStatus === "Completed" ? "Normal" : "Warning", reason, note: text }],
  };
}

function base({ job, launcherPods, workerPods, now }: RhinoJobObservation): Status {
  const namesOf = (pods: readonly DeepReadonly<PodObject>[]): string[] => pods.map((pod) => pod.metadata.name ?? "").sort();
  return {
    // Written with the decision to create the launcher, so that a launcher that is missing later is known to be deleted.
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
