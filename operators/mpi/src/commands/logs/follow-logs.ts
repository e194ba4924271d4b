import { type DeepReadonly, isExpired } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { labels } from "../../api/names.ts";
import { mainContainerName } from "../../children/job-templates.ts";
import type { JobView } from "../../controllers/job-view.ts";
import type { RankSelection } from "./log-lines.ts";
import { copyLog, hasStarted } from "./pod-log.ts";
import { watchUntilEnd } from "../jobs/watch-job.ts";

/** Options of {@link followLogs}. */
export interface FollowOptions {
  /** Current state of the job. */
  readonly job: JobView;
  /** Include the workers' logs and prefix every line with its Pod's name. */
  readonly workers: boolean;
  /** Selects lines of labelled output. Default: print the output as it is. */
  readonly ranks?: RankSelection;
  readonly signal: AbortSignal;
  /** Receives the output as it arrives. */
  readonly out: NodeJS.WritableStream;
  /** Called with every state of the job. */
  readonly onChange?: (job: JobView) => void;
  /** Called once for every Pod whose log is read. */
  readonly onStarted?: (pod: DeepReadonly<PodObject>) => void;
}

/**
 * Streams the logs of a job's Pods from the first byte until the job has ended and everything is read. Returns the job at its end
 * (`undefined` if it was deleted) and the number of Pods that had a log.
 */
export async function followLogs(
  client: Client,
  { job, workers, ranks, signal, out, onChange = () => {}, onStarted = () => {} }: FollowOptions,
): Promise<{ readonly job: JobView | undefined; readonly logs: number }> {
  const { namespace = "", uid = "" } = job.metadata;
  const selection = { namespace, labelSelector: `${labels.uid}=${uid}${workers ? "" : `,${labels.type}=launcher`}` };
  const reading = new Map<string, Promise<boolean>>();
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const consider = (pod: DeepReadonly<PodObject>): void => {
    const podName = pod.metadata.name ?? "";
    if (!hasStarted(pod) || reading.has(podName)) return;
    const selected = ranks === undefined ? {} : { ranks };
    const container = mainContainerName(job, pod.metadata.labels?.[labels.type] === "worker" ? "worker" : "launcher");
    const options = { container, follow: true, named: workers, ...selected, out, signal: stop };
    const read = copyLog(client, { namespace, name: podName }, options);
    // Stops the wait for the job immediately.
    read.catch((error: unknown) => failed.abort(error));
    reading.set(podName, read);
    onStarted(pod);
  };
  const watching = new AbortController();
  const watched = considerPods(client, selection, AbortSignal.any([stop, watching.signal]), consider);
  watched.catch((error: unknown) => failed.abort(error));
  let ended: JobView | undefined;
  try {
    ended = await watchUntilEnd(client, job, { signal: stop, onChange });
  } finally {
    watching.abort();
  }
  await watched;
  // Includes a Pod that started and ended between two watch events.
  if (ended !== undefined) for (const pod of (await client.list(Pod, { ...selection, signal: stop })).items) consider(pod);
  const found = await Promise.all(reading.values());
  return { job: ended, logs: found.filter(Boolean).length };
}

/** Calls `consider` for every Pod of a job and every change of one, until the signal fires. */
async function considerPods(
  client: Client,
  selection: { readonly namespace: string; readonly labelSelector: string },
  signal: AbortSignal,
  consider: (pod: DeepReadonly<PodObject>) => void,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const { items, metadata } = await client.list(Pod, { ...selection, signal });
      items.forEach(consider);
      const watch = await client.watch(Pod, { ...selection, signal, resourceVersion: metadata.resourceVersion ?? "" });
      for await (const event of watch)
        if (event.type === "ADDED" || event.type === "MODIFIED") consider(event.object as DeepReadonly<PodObject>);
    } catch (error) {
      if (signal.aborted) return;
      if (!isExpired(error)) throw error;
    }
  }
}
