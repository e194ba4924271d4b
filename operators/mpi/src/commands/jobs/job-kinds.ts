import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import type { Client, ListOptions, WatchOptions } from "@keelson/client";
import { MPIJob } from "../../api/mpi-job.ts";
import { RhinoJob } from "../../api/rhino-job.ts";
import type { JobView } from "../../controllers/job-view.ts";
import { viewOfMpiJob } from "../../controllers/mpi-job-view.ts";

/** A kind of job, as the commands read and change it. */
export interface JobKind {
  readonly type: ResourceType;
  get(client: Client, key: ObjectKey, signal: AbortSignal): Promise<JobView>;
  list(client: Client, options: ListOptions): Promise<{ readonly items: readonly JobView[]; readonly resourceVersion: string }>;
  /** The states of jobs as they change; undefined for a deletion. */
  changes(client: Client, options: WatchOptions): AsyncIterable<JobView | undefined>;
  patch(client: Client, key: ObjectKey, body: object, signal: AbortSignal): Promise<unknown>;
}

/** The kinds of jobs. */
export const jobKinds: readonly JobKind[] = [jobKind(RhinoJob, (job) => job), jobKind(MPIJob, viewOfMpiJob)];

/** The kind of a job. */
export function kindOf({ kind }: Pick<JobView, "kind">): JobKind {
  const found = jobKinds.find(({ type }) => type.kind === kind);
  if (found === undefined) throw new Error(`${kind} is not a kind of job`);
  return found;
}

function jobKind<T extends KubernetesObject>(type: ResourceType<T>, viewOf: (object: DeepReadonly<T>) => JobView): JobKind {
  return {
    type,
    get: async (client, key, signal) => viewOf(await client.get(type, key, { signal })),
    async list(client, options) {
      const { items, metadata } = await client.list(type, options);
      return { items: items.map(viewOf), resourceVersion: metadata.resourceVersion ?? "" };
    },
    async *changes(client, options) {
      const watch = await client.watch(type, options);
      try {
        for await (const event of watch) {
          if (event.type === "BOOKMARK") continue;
          yield event.type === "DELETED" ? undefined : viewOf(event.object);
        }
      } finally {
        watch.close();
      }
    },
    patch: (client, key, body, signal) => client.patch(type, key, { type: "merge", body }, { signal }),
  };
}
