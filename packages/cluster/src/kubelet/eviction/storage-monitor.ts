import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { type PodView, podKey } from "../pod/pod-view.ts";
import type { MeasureDiskUsage, Measurement } from "./disk-usage.ts";
import { storageExcess, storageLimits, type StorageLimits } from "./storage-decision.ts";
import { type StoragePaths, storagePaths, type StoredPod } from "./storage-paths.ts";

/** A running Pod whose usage of the disk is limited. */
export interface MonitoredPod extends StoredPod {
  /** Ends the Pod for this reason. */
  evict(message: string): void;
}

/** Options of {@link StorageMonitor}. */
export interface StorageMonitorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** The Pods that run now. */
  readonly pods: () => readonly MonitoredPod[];
  readonly measure: MeasureDiskUsage;
}

/** The interval of measurements, as the kubelet's housekeeping. */
const intervalMs = 10_000;
/** The time limit of a measurement of all Pods. */
const timeoutMs = 60_000;
/** A Pod with many files is measured for at most this share of the time. */
const shareOfTime = 0.1;

/** Pods that the kubelet never evicts (`SystemCriticalPriority`). */
const criticalPriority = 2_000_000_000;

interface Limited {
  readonly monitored: MonitoredPod;
  readonly limits: StorageLimits;
  readonly paths: StoragePaths;
}

/** Measures the Pods that have limits on the node's disk, and evicts those that exceed them. Runs until `stop`. */
export class StorageMonitor {
  readonly #options: StorageMonitorOptions;
  /** When Pods with many files are measured again, and how long it took, by uid. */
  #slow: ReadonlyMap<string, { readonly dueAt: number; readonly tookMs: number }> = new Map();
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: StorageMonitorOptions) {
    this.#options = options;
    this.#arm();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** Measures the Pods that are due now. */
  async check(): Promise<void> {
    const { log, measure } = this.#options;
    try {
      const due = await this.#due();
      const measurement = await measure(
        due.flatMap(({ paths }) => allPaths(paths)),
        timeoutMs,
      );
      if (this.#isStopped) return;
      for (const limited of due) this.#decide(limited, measurement);
      this.#keepSlow(due, measurement);
    } catch (error) {
      log.warn({ err: error }, "could not measure the disk usage of pods; retrying");
    }
  }

  /** Pods with many files come last, so that those of others are known when the time is over. */
  async #due(): Promise<readonly Limited[]> {
    const now = this.#options.clock.monotonic();
    const limited = this.#options.pods().flatMap((monitored) => {
      const { dueAt = 0, tookMs = 0 } = this.#slow.get(uidOf(monitored.pod)) ?? {};
      const limits = isCritical(monitored.pod) ? undefined : storageLimits(monitored.pod);
      return limits === undefined || dueAt > now ? [] : [{ monitored, limits, tookMs }];
    });
    limited.sort((a, b) => a.tookMs - b.tookMs);
    return Promise.all(
      limited.map(async ({ monitored, limits }) => ({ monitored, limits, paths: await storagePaths(monitored) })),
    );
  }

  #decide({ monitored, limits, paths }: Limited, { measured }: Measurement): void {
    const bytesOf = (path: string): number => measured.get(path)?.bytes ?? 0;
    const message = storageExcess(limits, {
      volumes: new Map(paths.volumes.map(({ name, path }) => [name, bytesOf(path)])),
      containers: new Map(
        paths.containers.map(({ name, paths: own, ownBytes }) => {
          const bytes = own.reduce((sum, path) => sum + bytesOf(path), 0);
          return [name, Math.max(bytes - ownBytes, 0)];
        }),
      ),
    });
    if (message !== undefined) monitored.evict(message);
  }

  #keepSlow(due: readonly Limited[], { measured, slowest }: Measurement): void {
    const { clock, log, pods } = this.#options;
    const now = clock.monotonic();
    const slow = new Map(this.#slow);
    for (const { monitored, paths } of due) {
      const all = allPaths(paths);
      const isSlowest = slowest !== undefined && all.includes(slowest);
      if (isSlowest)
        log.warn({ pod: podKey(monitored.pod), path: slowest }, "a pod has too many files to count its disk usage");
      const tookMs = isSlowest ? timeoutMs : all.reduce((sum, path) => sum + (measured.get(path)?.tookMs ?? 0), 0);
      const pauseMs = tookMs / shareOfTime;
      if (pauseMs > intervalMs) slow.set(uidOf(monitored.pod), { dueAt: now + pauseMs, tookMs });
      else slow.delete(uidOf(monitored.pod));
    }
    const running = new Set(pods().map(({ pod }) => uidOf(pod)));
    this.#slow = new Map([...slow].filter(([uid]) => running.has(uid)));
  }

  #arm(): void {
    if (this.#isStopped) return;
    const run = (): void => void this.check().finally(() => this.#arm());
    this.#timer = this.#options.clock.setTimer(intervalMs, run, { background: true });
  }
}

const uidOf = ({ metadata }: PodView): string => metadata.uid ?? "";

const isCritical = ({ spec }: PodView): boolean => (spec.priority ?? 0) >= criticalPriority;

const allPaths = ({ volumes, containers }: StoragePaths): readonly string[] => [
  ...volumes.map(({ path }) => path),
  ...containers.flatMap(({ paths }) => paths),
];
