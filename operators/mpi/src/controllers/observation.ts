import type { DeepReadonly } from "@keelson/api-machinery";
import type { JobObject, PodObject } from "@keelson/api-machinery/kinds";
import type { RhinoJob } from "../api/rhino-job.ts";
import type { JobView } from "./job-view.ts";

/** Input of the decision about a RhinoJob. The Jobs are those with the names of the current attempt's children, regardless of their owner. */
export interface RhinoJobObservation {
  readonly job: JobView;
  readonly launcher: DeepReadonly<JobObject> | undefined;
  readonly workers: DeepReadonly<JobObject> | undefined;
  readonly launcherPods: readonly DeepReadonly<PodObject>[];
  readonly workerPods: readonly DeepReadonly<PodObject>[];
  /** Why a volume of a Pod cannot be mounted, from the Pod's events. Default: no failures are known. */
  readonly mountFailureOf?: (pod: DeepReadonly<PodObject>) => string | undefined;
  /** Whether an attempt starts only after its admission by the queue. Default: false. */
  readonly needsAdmission?: boolean;
  /**
   * Whether launcher and workers are created together, because the scheduler places all Pods of a job together. The workers find the launcher
   * by its name then. Default: workers are created when the launcher has an address.
   */
  readonly startsTogether?: boolean;
  readonly now: number;
}

/** An event to record. */
export interface EventDraft {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

/** A child Job of a RhinoJob. */
export type Child = "launcher" | "workers";

/** Writes, in this order. */
export interface RhinoJobDecision {
  /** Create the Secret and the launcher's Job of the attempt in `status`. */
  readonly createLauncher?: true;
  /** Create the workers' Job, for the launcher at this address or name. */
  readonly createWorkers?: { readonly launcherHost: string };
  /** Jobs to suspend, which stops their Pods. */
  readonly suspend: readonly Child[];
  /** Jobs to delete with their Pods. */
  readonly remove?: readonly Child[];
  readonly status?: NonNullable<RhinoJob["status"]>;
  readonly events: readonly EventDraft[];
  /** The job could start, but waits for its admission by the queue. */
  readonly awaitsAdmission?: true;
  /** The ttl has passed: delete the RhinoJob with its children. */
  readonly isExpired?: true;
  readonly requeueAfterMs?: number;
}

/** A decision to write nothing. */
export const noWrites: RhinoJobDecision = { suspend: [], events: [] };
