import type { Clock } from "@keelson/api-machinery/time";
import type { MeasureDiskUsage } from "../eviction/disk-usage.ts";
import type { MonitoredPod } from "../eviction/storage-monitor.ts";
import { type StoragePaths, storagePaths } from "../eviction/storage-paths.ts";
import type { Candidate } from "./eviction-ranking.ts";

/** How long the files of all Pods are counted. */
const totalTimeoutMs = 60_000;
/** How long the files of one path are counted. */
const pathTimeoutMs = 20_000;

/** A Pod with its usage. */
export interface MeasuredPod extends Candidate {
  readonly monitored: MonitoredPod;
}

/** Measures what Pods use of the disk. A Pod with a path that takes too long to count has no total; paths that were not reached count nothing. */
export async function measurePods(
  pods: readonly MonitoredPod[],
  options: {
    readonly measure: MeasureDiskUsage;
    readonly clock: Clock;
    readonly signal: AbortSignal;
    /** Whether the node's own files are to be subtracted, which are known in bytes. */
    readonly isInBytes: boolean;
  },
): Promise<readonly MeasuredPod[]> {
  const located = await Promise.all(pods.map(async (monitored) => ({ monitored, paths: await storagePaths(monitored) })));
  const amounts = await measurePaths(
    located.flatMap(({ paths }) => allPaths(paths)),
    options,
  );
  return located.map(({ monitored, paths }) => {
    const amountOf = (path: string): number => amounts.get(path) ?? 0;
    const containers = new Map(
      paths.containers.map(({ name, paths: own, ownBytes }) => {
        const amount = own.reduce((sum, path) => sum + amountOf(path), 0);
        return [name, Math.max(amount - (options.isInBytes ? ownBytes : 0), 0)] as const;
      }),
    );
    const volumes = paths.volumes.reduce((sum, { path }) => sum + amountOf(path), 0);
    const total = [...containers.values()].reduce((sum, amount) => sum + amount, volumes);
    return {
      monitored,
      pod: monitored.pod,
      usage: { total: total === Number.POSITIVE_INFINITY ? undefined : total, containers },
    };
  });
}

const allPaths = ({ volumes, containers }: StoragePaths): readonly string[] => [
  ...volumes.map(({ path }) => path),
  ...containers.flatMap(({ paths }) => paths),
];

/** By path. Infinite for a path that takes too long. */
async function measurePaths(
  paths: readonly string[],
  { measure, clock, signal }: { readonly measure: MeasureDiskUsage; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<ReadonlyMap<string, number>> {
  const amounts = new Map<string, number>();
  const endsAt = clock.monotonic() + totalTimeoutMs;
  let left = paths;
  while (left.length > 0 && clock.monotonic() < endsAt) {
    const { measured, slowest } = await measure(left, pathTimeoutMs, signal);
    for (const [path, { bytes }] of measured) amounts.set(path, bytes);
    if (slowest === undefined) break;
    amounts.set(slowest, Number.POSITIVE_INFINITY);
    left = left.slice(left.indexOf(slowest) + 1);
  }
  return amounts;
}
