import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { workerPodCount } from "../launch/launcher/host-layout.ts";
import { layoutOf } from "../children/hosts.ts";
import { isCreating, type PodTrouble, podTrouble } from "./pod-trouble.ts";
import { launchProgress, type Progress } from "./job-status.ts";
import type { RhinoJobObservation } from "./observation.ts";

/** Why a Pod does not start, including a volume that cannot be mounted, which its status does not say. */
function troubleOf(pod: DeepReadonly<PodObject>, { mountFailureOf }: RhinoJobObservation): PodTrouble | undefined {
  const trouble = podTrouble(pod);
  const failure = trouble === undefined && isCreating(pod) ? mountFailureOf?.(pod) : undefined;
  return failure === undefined ? trouble : { reason: "FailedMount", message: failure, isImage: false };
}

/** Reason of a job whose launcher starts normally. */
const launcherStarting = "LauncherStarting";

/** State of a job whose Pods are running, before mpiexec can start ranks. */
const waitingForLines: Progress = {
  jobStatus: "Pending",
  reason: launcherStarting,
  message: "waiting for mpiexec's launch lines",
};

/** What a job whose launcher is not running waits for. */
export function waitingForLauncher(observation: RhinoJobObservation): Progress {
  const trouble = observation.launcherPods.map((pod) => troubleOf(pod, observation)).find((each) => each !== undefined);
  if (trouble !== undefined) return waiting("the launcher", trouble);
  return { jobStatus: "Pending", reason: launcherStarting, message: "the launcher is not running yet" };
}

function waiting(subject: string, trouble: PodTrouble): Progress {
  return {
    jobStatus: trouble.isImage ? "ImageError" : "Pending",
    reason: trouble.reason,
    message: `${subject} cannot start: ${trouble.reason}${trouble.message ? `: ${trouble.message}` : ""}`,
  };
}

function hasStarted({ status }: DeepReadonly<PodObject>): boolean {
  return ["Running", "Succeeded", "Failed"].includes(status?.phase ?? "");
}

/** Whether a job whose workers were created is running, or what it waits for. */
export function runningOrWaiting(observation: RhinoJobObservation): Progress {
  const { job, launcherPods, workerPods } = observation;
  const wanted = workerPodCount(layoutOf(job));
  const message = `the launcher and ${wanted} ${wanted === 1 ? "worker" : "workers"} are running`;
  const running: Progress = { jobStatus: "Running", reason: "Running", message };
  if (job.status?.jobStatus === "Running") return running;
  const launcher = waitingForLauncher(observation);
  const { isLauncherReady } = launchProgress(observation);
  const isLauncherUp = isLauncherReady || launcherPods.some(hasStarted);
  if (!isLauncherUp && launcher.reason !== launcherStarting) return launcher;
  const started = workerPods.filter(hasStarted).length;
  if (isLauncherUp && started >= wanted) return isLauncherReady ? running : waitingForLines;
  for (const pod of workerPods) {
    const trouble = troubleOf(pod, observation);
    if (trouble !== undefined) return waiting(`worker ${pod.metadata.name}`, trouble);
  }
  if (!isLauncherUp) return launcher;
  return {
    jobStatus: "Pending",
    reason: "WorkersStarting",
    message: `${started} of ${wanted} workers running`,
  };
}

/** Interval for looking up mount failures of a Pod that is being created. */
export const mountCheckIntervalMs = 3000;

/** Events do not lead to a reconcile, so a Pod that is being created is checked again. */
export function recheck(pods: readonly DeepReadonly<PodObject>[]): { readonly requeueAfterMs?: number } {
  return pods.some(isCreating) ? { requeueAfterMs: mountCheckIntervalMs } : {};
}
