import { isControlledBy } from "@keelson/api-machinery";
import { workerPodCount } from "../launch/launcher/host-layout.ts";
import { launcherLostExitCode } from "../launch/exit-codes.ts";
import { childNames } from "../children/child-names.ts";
import { launcherFailed, workersFailed } from "./failure-cause.ts";
import { launcherHostName, layoutOf } from "../children/hosts.ts";
import { afterTheEnd, completed, failed, haveEnded, stopRemaining } from "./job-end.ts";
import { jobOutcome, launcherOutcome } from "./job-outcome.ts";
import { changed, launchProgress, progress, statusWith, waitingForAdmission, waitingToStart } from "./job-status.ts";
import { type Child, noWrites, type RhinoJobDecision, type RhinoJobObservation } from "./observation.ts";
import { exitCodeOf } from "./pod-trouble.ts";
import { deadlineMs, isCancelled, isManagedElsewhere, isRestarting, isSuspended, nextAttemptAt } from "./run-policy.ts";
import { isAdmitted } from "../queue/admission-need.ts";
import { recheck, runningOrWaiting, waitingForLauncher } from "./waiting-reason.ts";
import { hasFailedWorker, workerFailureTime } from "./worker-failure.ts";

/** Time that the launcher has to report the failure of a worker, which it can explain better than the worker's Pod. */
const workersFailedGraceMs = 4000;
/** That time if no rank has run. */
const notReadyGraceMs = 2000;
/** That time if the worker has lost the launcher, after a silence of 3 s. */
const launcherLostGraceMs = 1000;
/** Time until a job is started again that could not start without PodGroups. */
const podGroupsRetryMs = 10_000;

/**
 * Decides about a RhinoJob.
 *
 * **Guarantees**: the result of a job is final. It is Completed only if the launcher exited with 0, which implies that mpiexec did.
 * Launcher and workers are created once per attempt; a deleted one fails the attempt, because its part of the run cannot be repeated. An
 * attempt starts when all Pods of the previous one have ended. The ttl counts from the end, so it never deletes a running job.
 */
export function decideRhinoJob(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, launcher, launcherPods, workers } = observation;
  if (job.metadata.deletionTimestamp !== undefined || isManagedElsewhere(job)) return noWrites;
  const before = job.status?.jobStatus;
  if (before === "Completed" || before === "Failed") return afterTheEnd(observation);

  const taken = [launcher, workers].find((child) => child !== undefined && !isControlledBy(child, job));
  if (taken !== undefined) return failed(observation, "NameTaken", `Job ${taken.metadata.name} has another owner`);
  // A program that has ended is not suspended.
  const hasOutcome = launcher !== undefined && launcherOutcome(launcher, launcherPods) !== undefined;
  const isOver = hasOutcome && !isRestarting(job) && !isSuspended(job);
  if (isCancelled(job) && !isOver) return failed(observation, "Cancelled", "cancelled");
  if (job.spec.runPolicy?.suspend === true && !isOver) return suspended(observation);
  if (isSuspended(job)) return resumed(observation);
  if (isRestarting(job)) return restarting(observation);
  return currentAttempt(observation);
}

/** Starts the first attempt, or continues the current one. */
function currentAttempt(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, launcher, launcherPods, workers } = observation;
  const names = childNames(job.metadata.name ?? "", job.metadata.uid ?? "", job.status?.attempt);
  if (launcher === undefined) {
    if (job.status?.startTime !== undefined || workers !== undefined)
      return failed(observation, "LauncherDeleted", `Job ${names.launcher} was deleted`);
    return startedOnceAdmitted(observation, 1);
  }
  const outcome = launcherOutcome(launcher, launcherPods);
  if (outcome?.kind === "complete") return completed(observation);
  if (outcome?.kind === "failed") return launcherFailed(observation, outcome.reason, outcome.message);
  if (launcher.metadata.deletionTimestamp !== undefined)
    return failed(observation, "LauncherDeleted", `Job ${names.launcher} was deleted`);
  return workers === undefined ? withoutWorkers(observation) : withWorkers(observation);
}

/** Starts an attempt, or waits until the queue has admitted it. */
function startedOnceAdmitted(observation: RhinoJobObservation, attempt: number): RhinoJobDecision {
  const { job, needsAdmission = false } = observation;
  if (!needsAdmission || isAdmitted(job, attempt)) return started(observation, attempt);
  // The queue has not considered the job yet, so its status has no reason to show.
  const status = job.status?.queue === undefined ? {} : waitingForAdmission(observation);
  return { ...noWrites, ...status, awaitsAdmission: true };
}

/** Records the start of an attempt, without creating the children: its launcher exists, or some were rejected. */
export function decideInterruptedStart(observation: RhinoJobObservation, attempt = 1): RhinoJobDecision {
  // The workers may not exist yet. The next decision creates them.
  const { createLauncher: _, ...decision } = started({ ...observation, startsTogether: false }, attempt);
  return decision;
}

/** Starts an attempt with fresh children. */
function started(observation: RhinoJobObservation, attempt: number): RhinoJobDecision {
  const { job, startsTogether = false } = observation;
  const names = childNames(job.metadata.name ?? "", job.metadata.uid ?? "", attempt);
  // Nothing of the previous attempt counts for this one.
  const { exitCode: _, ...before } = job.status ?? {};
  const fresh = { ...observation, job: { ...job, status: { ...before, attempt } }, launcherPods: [], workerPods: [] };
  const message = attempt === 1 ? "creating the launcher" : `creating the launcher of attempt ${attempt}`;
  const launch = { isLauncherReady: false, areWorkersCreated: startsTogether };
  const { status } = progress(fresh, { jobStatus: "Pending", reason: "LauncherCreated", message }, launch);
  const changes = { ...(isRestarting(job) ? { Restarting: false } : {}), ...(isSuspended(job) ? { Suspended: false } : {}) };
  const reason = isSuspended(job) ? "Resumed" : "AttemptStarted";
  const cleared =
    status === undefined ? undefined : statusWith({ ...fresh, job: { ...fresh.job, status } }, {}, changes, reason, message);
  return {
    ...noWrites,
    createLauncher: true,
    ...(startsTogether ? { createWorkers: { launcherHost: launcherHostName(job, names) } } : {}),
    ...(cleared === undefined ? {} : { status: { ...cleared, jobStatus: "Pending" } }),
    events: [{ type: "Normal", reason: "LauncherCreated", note: `created Job ${names.launcher}` }],
  };
}

/** Creates the workers once the launcher's Pod has an address, so that both start in parallel. */
function withoutWorkers(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, launcherPods, startsTogether = false } = observation;
  const names = childNames(job.metadata.name ?? "", job.metadata.uid ?? "", job.status?.attempt);
  const launch = launchProgress(observation);
  if (launch.areWorkersCreated) return failed(observation, "WorkersDeleted", `Job ${names.workers} was deleted`);
  const address = launcherPods.find(canBeJoined)?.status?.podIP;
  const launcherHost = startsTogether ? launcherHostName(job, names) : address;
  if (launcherHost === undefined)
    return { ...noWrites, ...progress(observation, waitingForLauncher(observation)), ...recheck(launcherPods) };
  const count = workerPodCount(layoutOf(job));
  const step = { jobStatus: "Pending", reason: "WorkersCreated", message: "creating the workers" } as const;
  return {
    ...noWrites,
    createWorkers: { launcherHost },
    ...progress(observation, step, { ...launch, areWorkersCreated: true }),
    events: [{ type: "Normal", reason: "WorkersCreated", note: `created Job ${names.workers} with ${count} workers` }],
  };
}

/** Whether a launcher's Pod has an address that workers can try to join. */
function canBeJoined({ metadata, status }: RhinoJobObservation["launcherPods"][number]): boolean {
  const isActive = status?.phase === "Pending" || status?.phase === "Running";
  return metadata.deletionTimestamp === undefined && isActive && (status.podIP ?? "") !== "";
}

/** Waits for the launcher to end, or for it to report a failed worker. */
function withWorkers(observation: RhinoJobObservation): RhinoJobDecision {
  const { workers, launcherPods, workerPods, now } = observation;
  const launch = { ...launchProgress(observation), areWorkersCreated: true };
  const writes = { ...noWrites, ...progress(observation, runningOrWaiting(observation), launch) };
  if (workers === undefined || !hasFailedWorker(workers, workerPods))
    return { ...writes, ...recheck([...launcherPods, ...workerPods]) };
  const hasLostLauncher = workerPods.some((pod) => exitCodeOf(pod) === launcherLostExitCode);
  const readyGraceMs = launch.isLauncherReady ? workersFailedGraceMs : notReadyGraceMs;
  const graceMs = hasLostLauncher ? launcherLostGraceMs : readyGraceMs;
  const left = workerFailureTime(workers, workerPods) + graceMs - now;
  return left > 0 ? { ...writes, requeueAfterMs: left } : workersFailed(observation);
}

/** Starts the next attempt when its backoff has passed and all Pods of the failed one have ended. */
function restarting(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, launcherPods, workerPods, now } = observation;
  const { attempt = 1, failures = 1 } = job.status ?? {};
  const left = deadlineMs(job, now);
  if (left !== undefined && left <= 0)
    return failed(observation, "DeadlineExceeded", `the job was active longer than its deadline; ${failures} attempts failed`);
  const failedAt = Date.parse(job.status?.conditions?.find(({ type }) => type === "Restarting")?.lastTransitionTime ?? "");
  const backoffLeft = nextAttemptAt(job) - now;
  if (backoffLeft <= 0 && haveEnded([...launcherPods, ...workerPods])) {
    const decision = startedOnceAdmitted(observation, attempt + 1);
    return left === undefined || decision.createLauncher ? decision : { ...decision, requeueAfterMs: left };
  }
  const { suspend, requeueAfterMs } = stopRemaining(observation, failedAt);
  const waits = [requeueAfterMs, backoffLeft > 0 ? backoffLeft : undefined, left].filter((each) => each !== undefined);
  return { ...noWrites, suspend, ...(waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) }) };
}

/** Stops the Pods of a job that is suspended. Its time starts again when it is resumed. */
function suspended(observation: RhinoJobObservation): RhinoJobDecision {
  const { job } = observation;
  const changes = { Created: true, Suspended: true, Running: false, ...(isRestarting(job) ? { Restarting: false } : {}) };
  const {
    startTime: _,
    attempt,
    ...status
  } = statusWith(observation, { jobStatus: "Suspended" }, changes, "Suspended", "suspended");
  // The Jobs of an attempt may exist before its status does. The next attempt needs other ones.
  const wasStarted = job.status?.attempt !== undefined || observation.launcher !== undefined;
  return {
    ...noWrites,
    suspend: activeChildren(observation),
    ...changed(job, wasStarted ? { ...status, attempt } : status),
    events: isSuspended(job) ? [] : [{ type: "Normal", reason: "Suspended", note: "suspended" }],
  };
}

function activeChildren({ launcher, workers }: RhinoJobObservation): readonly Child[] {
  const isActive = (child: typeof launcher): boolean =>
    child !== undefined && jobOutcome(child) === undefined && child.spec.suspend !== true;
  return [...(isActive(launcher) ? ["launcher" as const] : []), ...(isActive(workers) ? ["workers" as const] : [])];
}

/** Starts a fresh attempt of a job that is no longer suspended, once the Pods of the previous one have ended. */
function resumed(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, launcherPods, workerPods } = observation;
  // A controller that stopped before it had suspended the Jobs does so now.
  if (!haveEnded([...launcherPods, ...workerPods])) return { ...noWrites, suspend: activeChildren(observation) };
  const decision = startedOnceAdmitted(observation, (job.status?.attempt ?? 0) + 1);
  if (decision.awaitsAdmission) return decision;
  return { ...decision, events: [{ type: "Normal", reason: "Resumed", note: "resumed" }, ...decision.events] };
}

/** The decision about a job that cannot start, because the cluster does not have PodGroups. */
export function decideWithoutPodGroups(observation: RhinoJobObservation, message: string): RhinoJobDecision {
  const reason = "PodGroupsUnknown";
  const events = [{ type: "Warning", reason, note: message }] as const;
  return { ...noWrites, ...waitingToStart(observation, reason, message), events, requeueAfterMs: podGroupsRetryMs };
}

/** The decision about a job whose launcher or workers the API server rejects permanently: it fails with the reason. */
export function decideRefused(observation: RhinoJobObservation, message: string): RhinoJobDecision {
  return failed(observation, "Refused", message);
}
