import { type DeepReadonly, isExpired } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { RhinoJob } from "../api/rhino-job.ts";

/** Where a wait for a job's end has come to. */
export interface EndOptions {
  readonly namespace: string;
  readonly name: string;
  readonly signal: AbortSignal;
  /** Told of every state on the way. */
  readonly onChange: (job: DeepReadonly<RhinoJob>) => void;
}

/** Waits by watch until a job has ended, and answers it; `undefined` where it was deleted. */
export async function watchUntilEnd(client: Client, options: EndOptions): Promise<DeepReadonly<RhinoJob> | undefined> {
  const { namespace, name, signal, onChange } = options;
  const fieldSelector = `metadata.name=${name}`;
  for (;;) {
    const list = await client.list(RhinoJob, { namespace, fieldSelector, signal });
    const [present] = list.items;
    if (present === undefined) return undefined;
    onChange(present);
    if (hasEnded(present)) return present;
    const watch = await client.watch(RhinoJob, {
      namespace,
      fieldSelector,
      signal,
      resourceVersion: list.metadata.resourceVersion ?? "",
    });
    try {
      for await (const { type, object } of watch) {
        if (type === "BOOKMARK") continue;
        if (type === "DELETED") return undefined;
        onChange(object);
        if (hasEnded(object)) return object;
      }
    } catch (error) {
      if (!isExpired(error)) throw error;
    } finally {
      watch.close();
    }
    signal.throwIfAborted();
  }
}

/** Whether a job has ended. */
export function hasEnded(job: DeepReadonly<RhinoJob>): boolean {
  return job.status?.jobStatus === "Completed" || job.status?.jobStatus === "Failed";
}
