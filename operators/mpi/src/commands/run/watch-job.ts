import { type DeepReadonly, isExpired } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { RhinoJob } from "../../api/rhino-job.ts";

/** Options of {@link watchUntilEnd}. */
export interface EndOptions {
  readonly namespace: string;
  readonly name: string;
  readonly signal: AbortSignal;
  /** Called with every state of the job. */
  readonly onChange: (job: DeepReadonly<RhinoJob>) => void;
}

/** Watches a job until it has ended, and returns it; `undefined` if it was deleted. */
export async function watchUntilEnd(client: Client, options: EndOptions): Promise<DeepReadonly<RhinoJob> | undefined> {
  const { namespace, name, signal, onChange } = options;
  const fieldSelector = `metadata.name=${name}`;
  for (;;) {
    const list = await client.list(RhinoJob, { namespace, fieldSelector, signal });
    const [current] = list.items;
    if (current === undefined) return undefined;
    onChange(current);
    if (hasEnded(current)) return current;
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

/** Exit status for a job that has ended: 0, that of the rank that failed first, or 1 if it has none. */
export function exitCodeOfJob({ status }: DeepReadonly<RhinoJob>): number {
  return status?.jobStatus === "Completed" ? 0 : status?.exitCode || 1;
}
