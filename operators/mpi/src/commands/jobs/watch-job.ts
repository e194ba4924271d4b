import { isExpired } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { JobView } from "../../controllers/job-view.ts";
import { kindOf } from "./job-kinds.ts";

/** Options of {@link watchUntilEnd}. */
export interface EndOptions {
  readonly signal: AbortSignal;
  /** Called with every state of the job. */
  readonly onChange: (job: JobView) => void;
}

/** Watches a job until it has ended, and returns it; `undefined` if it was deleted or replaced. */
export async function watchUntilEnd(
  client: Client,
  job: Pick<JobView, "kind" | "metadata">,
  { signal, onChange }: EndOptions,
): Promise<JobView | undefined> {
  const kind = kindOf(job);
  const { namespace, name, uid } = job.metadata;
  const selection = { namespace, fieldSelector: `metadata.name=${name}`, signal };
  for (;;) {
    const { items, resourceVersion } = await kind.list(client, selection);
    const [current] = items;
    if (current === undefined || current.metadata.uid !== uid) return undefined;
    onChange(current);
    if (hasEnded(current)) return current;
    try {
      for await (const change of kind.changes(client, { ...selection, resourceVersion })) {
        if (change === undefined || change.metadata.uid !== uid) return undefined;
        onChange(change);
        if (hasEnded(change)) return change;
      }
    } catch (error) {
      if (!isExpired(error)) throw error;
    }
    signal.throwIfAborted();
  }
}

/** Whether a job has ended. */
export function hasEnded({ status }: Pick<JobView, "status">): boolean {
  return status?.jobStatus === "Completed" || status?.jobStatus === "Failed";
}

/** Exit status for a job that has ended: 0, that of the rank that failed first, or 1 if it has none. */
export function exitCodeOfJob({ status }: Pick<JobView, "status">): number {
  return status?.jobStatus === "Completed" ? 0 : status?.exitCode || 1;
}
