import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { EventRecorder } from "@keelson/controller/events";
import { measureDiskUsage } from "../eviction/disk-usage.ts";
import { monitoredPods } from "../eviction/monitored-pods.ts";
import type { PodWorker } from "../pod/pod-worker.ts";
import { DiskPressure } from "./disk-pressure.ts";
import { readSpace } from "./read-space.ts";
import { reclaimFiles } from "./reclaim-files.ts";
import type { EvictionSettings } from "./thresholds.ts";

/** What {@link createNodePressure} takes. */
export interface NodePressureOptions extends EvictionSettings {
  readonly nodeName: string;
  /** The directory of the Pods. */
  readonly podsDir: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventRecorder;
  /** The workers of the node's Pods. */
  readonly workers: () => Iterable<PodWorker>;
  /** Reports the status of the Node. */
  readonly report: () => void;
}

/** Creates the {@link DiskPressure} of a node, which records its changes as events of the Node and in its status. */
export function createNodePressure(options: NodePressureOptions): DiskPressure {
  const { nodeName, podsDir, clock, log, events, workers, report, thresholds, transitionMs } = options;
  const node = { apiVersion: "v1", kind: "Node", metadata: { name: nodeName } };
  const pressure: DiskPressure = new DiskPressure({
    clock,
    log,
    ...{ thresholds, transitionMs },
    readSpace: () => readSpace(podsDir),
    measure: {
      "nodefs.available": measureDiskUsage(clock),
      "nodefs.inodesFree": measureDiskUsage(clock, "files"),
    },
    pods: () => monitoredPods(workers(), podsDir),
    reclaim: () => reclaimFiles(workers()),
    onChange() {
      const reason = pressure.isPresent ? "NodeHasDiskPressure" : "NodeHasNoDiskPressure";
      events.event(node, { type: "Normal", reason, note: `Node ${nodeName} status is now: ${reason}` });
      report();
    },
    onThresholdMet(signal) {
      const note = `Attempting to reclaim ${signal === "nodefs.available" ? "ephemeral-storage" : "inodes"}`;
      events.event(node, { type: "Warning", reason: "EvictionThresholdMet", note });
    },
  });
  return pressure;
}
