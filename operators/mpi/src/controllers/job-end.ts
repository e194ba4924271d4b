import { isControlledBy } from "@keelson/api-machinery";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { JobObject, PodObject } from "@keelson/api-machinery/kinds";
import { layoutOf } from "../children/hosts.ts";
import { workerPodCount } from "../launch/launcher/host-layout.ts";
import { jobOutcome } from "./job-outcome.ts";
import { changed, rfc3339, statusWith } from "./job-status.ts";
import { type Child, noWrites, type RhinoJobDecision, type RhinoJobObservation } from "./observation.ts";
import { exitCodeOf } from "./pod-trouble.ts";
import { isRetried, ttlMs } from "./run-policy.ts";

/** Time that workers have to end after the job has. They notice a lost launcher after 3 s and give their ranks 2 s. */
const workersEndGraceMs = 6000;

const maxMessageLength = 1024;

/** Stops what is left of a job that has ended, and deletes the job when its ttl has passed. */
export function afterTheEnd(observation: RhinoJobObservation): RhinoJobDecision {
  const { job, now } = observation;
  const end = Date.parse(job.status?.completionTime ?? "");
  const ttl = ttlMs(job);
  const left = ttl === undefined || Number.isNaN(end) ? undefined : end + ttl - now;
  if (left !== undefined && left <= 0) return { ...noWrites, isExpired: true };
  const { requeueAfterMs: graceLeft, ...writes } = cleanUp(observation, end);
  const waits = [left, graceLeft].filter((each) => each !== undefined);
  return { ...noWrites, ...writes, ...(waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) }) };
}

type CleanUp = Pick<RhinoJobDecision, "suspend" | "remove" | "requeueAfterMs">;

/** What `cleanPodPolicy` requires of a job that ended at `end`. */
function cleanUp(observation: RhinoJobObservation, end: number): CleanUp {
  const { job, launcher, launcherPods, workers } = observation;
  const policy = job.spec.runPolicy?.cleanPodPolicy;
  if (policy === "None") return { suspend: [] };
  if (policy !== "All") {
    const { suspend, ...rest } = stopRemaining(observation, end);
    // The Pod of a launcher that has ended may have containers that run on. Without the Pod, the output of the job would be lost.
    const keepsLauncher = launcherPods.some((pod) => exitCodeOf(pod) !== undefined);
    return { ...rest, suspend: suspend.filter((child) => child !== "launcher" || !keepsLauncher) };
  }
  const owned = (child: DeepReadonly<JobObject> | undefined): boolean =>
    child !== undefined && isControlledBy(child, job) && child.metadata.deletionTimestamp === undefined;
  const remove: Child[] = [...(owned(launcher) ? ["launcher" as const] : []), ...(owned(workers) ? ["workers" as const] : [])];
  return { suspend: [], ...(remove.length === 0 ? {} : { remove }) };
}

/** What to stop of a job or an attempt that ended at `end`. Workers end with their launcher; a Pod that is stopped loses its log. */
export function stopRemaining(observation: RhinoJobObservation, end: number): CleanUp {
  const { job, launcher, launcherPods, workers, workerPods, now } = observation;
  const isActive = (child: DeepReadonly<JobObject> | undefined): boolean =>
    child !== undefined && isControlledBy(child, job) && jobOutcome(child) === undefined && child.spec.suspend !== true;
  // A Job whose Pods have ended records that soon.
  const first = isActive(launcher) && !haveAllEnded(launcherPods, 1) ? ["launcher" as const] : [];
  if (!isActive(workers) || haveAllEnded(workerPods, workerPodCount(layoutOf(job)))) return { suspend: first };
  const left = end + workersEndGraceMs - now;
  const areEnding = workerPods.some(
    ({ metadata, status }) => status?.phase === "Running" && metadata.deletionTimestamp === undefined,
  );
  return areEnding && left > 0 ? { suspend: first, requeueAfterMs: left } : { suspend: [...first, "workers"] };
}

/** Whether all Pods have ended, so that those of another attempt may start. */
export function haveEnded(pods: readonly DeepReadonly<PodObject>[]): boolean {
  return pods.every(({ status }) => status?.phase === "Succeeded" || status?.phase === "Failed");
}

/** Whether all Pods of a Job were created and have ended by themselves. */
function haveAllEnded(pods: readonly DeepReadonly<PodObject>[], count: number): boolean {
  return pods.length >= count && haveEnded(pods) && pods.every(({ metadata }) => metadata.deletionTimestamp === undefined);
}

/** The end of a job whose program exited with 0 in every rank. */
export function completed(observation: RhinoJobObservation): RhinoJobDecision {
  return ended(observation, "Completed", "Completed", "the program exited with 0", 0);
}

/** A failure: the end of the job, or of an attempt if `backoffLimit` allows another one. */
export function failed(observation: RhinoJobObservation, reason: string, message: string, exitCode?: number): RhinoJobDecision {
  const { job, now } = observation;
  if (!isRetried(job, reason)) return ended(observation, "Failed", reason, message, exitCode);
  const { attempt = 1, failures = 0 } = job.status ?? {};
  const text = `attempt ${attempt} failed: ${message}`.slice(0, maxMessageLength);
  const fields = { jobStatus: "Pending" as const, failures: failures + 1, ...(exitCode === undefined ? {} : { exitCode }) };
  const changes = { Running: false, Restarting: true };
  return {
    ...noWrites,
    ...stopRemaining(observation, now),
    status: statusWith(observation, fields, changes, reason, text),
    events: [{ type: "Warning", reason: "AttemptFailed", note: text }],
  };
}

function ended(
  observation: RhinoJobObservation,
  jobStatus: "Completed" | "Failed",
  reason: string,
  message: string,
  exitCode?: number,
): RhinoJobDecision {
  const { job, now } = observation;
  const text = message.slice(0, maxMessageLength);
  const isCompleted = jobStatus === "Completed";
  const changes = {
    Running: false,
    ...(isCompleted || job.status?.failures === undefined ? {} : { Restarting: false }),
    Completed: isCompleted,
    Succeeded: isCompleted,
    Failed: !isCompleted,
  };
  const fields = { jobStatus, ...(exitCode === undefined ? {} : { exitCode }), completionTime: rfc3339(now) };
  return {
    ...noWrites,
    ...cleanUp(observation, now),
    ...changed(job, statusWith(observation, fields, changes, reason, text)),
    events: [{ type: isCompleted ? "Normal" : "Warning", reason, note: text }],
  };
}
