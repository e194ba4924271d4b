import type { PodWorker } from "../pod/pod-worker.ts";

/**
 * Removes the files that no running program needs: those of Pods that have ended, including their logs, and the logs of earlier attempts of
 * containers. The kubelet removes the same, its unused containers, before it evicts a Pod.
 */
export async function reclaimFiles(workers: Iterable<PodWorker>): Promise<void> {
  for (const worker of workers) if (!worker.isRemoved && !worker.state.isReleased) await reclaimPod(worker);
}

async function reclaimPod(worker: PodWorker): Promise<void> {
  const { end, containers } = worker.state;
  for (const { name, attempt } of containers) {
    for (const each of end === undefined ? [attempt - 1] : [attempt - 1, attempt]) await worker.removeProgram(name, each);
  }
  if (end !== undefined) await worker.removeFolder();
}
