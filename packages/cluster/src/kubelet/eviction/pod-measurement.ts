import type { Measurement } from "./disk-usage.ts";
import type { MeasurementOutcome } from "./measurement-history.ts";
import { storageExcess, type StorageLimits } from "./storage-decision.ts";
import { limitedPaths, type StoragePaths } from "./storage-paths.ts";

/** What of a Pod is measured, and why. */
export interface LimitedStorage {
  readonly limits: StorageLimits;
  readonly paths: StoragePaths;
}

/** How a measurement ended for one of its Pods. */
export function outcomeOf(storage: LimitedStorage, { measured, slowest, failure }: Measurement): MeasurementOutcome {
  const paths = limitedPaths(storage);
  if (slowest !== undefined && paths.includes(slowest)) return { kind: "timedOut" };
  if (failure !== undefined && paths.some((path) => failure.paths.includes(path))) return { kind: "failed" };
  // Paths that have been removed are not measured either.
  if (slowest !== undefined && !paths.every((path) => measured.has(path))) return { kind: "skipped" };
  return { kind: "measured", tookMs: paths.reduce((sum, path) => sum + (measured.get(path)?.tookMs ?? 0), 0) };
}

/** Why a Pod is evicted; undefined if nothing is known against it. Paths that are not known count as empty, so the usage may be higher. */
export function excessOf({ limits, paths }: LimitedStorage, { measured }: Measurement): string | undefined {
  const bytesOf = (path: string): number => measured.get(path)?.bytes ?? 0;
  return storageExcess(limits, {
    volumes: new Map(paths.volumes.map(({ name, path }) => [name, bytesOf(path)])),
    containers: new Map(
      paths.containers.map(({ name, paths: own, ownBytes }) => {
        const bytes = own.reduce((sum, path) => sum + bytesOf(path), 0);
        return [name, Math.max(bytes - ownBytes, 0)];
      }),
    ),
  });
}

/** Measurements of different paths as one. */
export function merged(parts: readonly Measurement[]): Measurement {
  const slowest = parts.find((part) => part.slowest !== undefined)?.slowest;
  const failure = parts.find((part) => part.failure !== undefined)?.failure;
  return {
    measured: new Map(parts.flatMap(({ measured }) => [...measured])),
    ...(slowest !== undefined && { slowest }),
    ...(failure !== undefined && { failure }),
  };
}
