import { join } from "node:path";
import type { PodWorker } from "../pod/pod-worker.ts";
import type { MonitoredPod } from "./storage-monitor.ts";

/** The Pods that have not ended and are not being stopped, for the limits of their disk usage. */
export function monitoredPods(workers: Iterable<PodWorker>, podsDir: string): readonly MonitoredPod[] {
  return [...workers]
    .filter(({ isRemoved, state }) => !isRemoved && state.stop === undefined && state.end === undefined)
    .map((worker) => ({
      pod: worker.pod,
      folder: join(podsDir, worker.pod.metadata.uid ?? ""),
      containers: worker.state.containers,
      program: (container, attempt) => worker.program(container, attempt),
      evict: (message) => worker.handle({ kind: "evicted", message }),
    }));
}
