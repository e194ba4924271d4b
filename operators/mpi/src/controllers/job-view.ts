import type { DeepReadonly } from "@keelson/api-machinery";
import type { RhinoJob } from "../api/rhino-job.ts";

/** What an MPIJob has in addition to a RhinoJob. */
export interface SessionView {
  readonly workerImage: string;
  /** Names of the containers that take part in the job. */
  readonly containerNames: { readonly launcher: string; readonly worker: string };
  /** Whether the launcher's command starts only when all workers have joined. */
  readonly waitsForWorkers: boolean;
}

/** A job as the controller sees it: a RhinoJob, or an MPIJob in the form of one. Its `kind` is that of the object. */
export type JobView = DeepReadonly<RhinoJob> & { readonly session?: SessionView };
