import { ignoreNotFound, type ObjectKey } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import type { JobView } from "../controllers/job-view.ts";
import { viewOfMpiJob } from "../controllers/mpi-job-view.ts";
import { ifReadable } from "./if-readable.ts";

/** The RhinoJob of a name, or else the MPIJob in the form of one; undefined if there is neither. */
export async function findJob(client: Client, key: ObjectKey, signal: AbortSignal): Promise<JobView | undefined> {
  const job = await ignoreNotFound(client.get(RhinoJob, key, { signal }));
  if (job !== undefined) return job;
  const mpiJob = await ifReadable(client.get(MPIJob, key, { signal }));
  return mpiJob === undefined ? undefined : viewOfMpiJob(mpiJob);
}
