import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { type PodView, podKey } from "../pod/pod-view.ts";
import type { MeasureDiskUsage, Measurement } from "./disk-usage.ts";
import { afterMeasurement, maxTimeouts, type MeasurementHistory, unmeasured } from "./measurement-history.ts";
import { excessOf, type LimitedStorage, merged, outcomeOf } from "./pod-measurement.ts";
import { storageLimits, type StorageLimits } from "./storage-decision.ts";
import { limitedPaths, storagePaths, type StoredPod } from "./storage-paths.ts";

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
/** The time limit of a measurement of all Pods with few files. */
const sharedTimeoutMs = 20_000;
/** The time limit for a path of a Pod with many files. */
const pathTimeoutMs = 60_000;
/** The time after which no other path of a Pod with many files is begun. */
const podTimeoutMs = 180_000;
/** The shortest time between two warnings that measurements fail. */
const warningIntervalMs = 600_000;

/** Pods that the kubelet never evicts (`SystemCriticalPriority`). */
const criticalPriority = 2_000_000_000;

interface Limited {
  readonly monitored: MonitoredPod;
  readonly limits: StorageLimits;
}

interface Located extends Limited, LimitedStorage {}

/**
 * Measures the Pods that have limits on the node's disk, and evicts those that exceed them, or whose files cannot be counted in time. Pods with
 * many files are measured one after another and alongside the others, so that they delay only each other. Runs until `stop`.
 */
export class StorageMonitor {
  readonly #options: StorageMonitorOptions;
  readonly #stopping = new AbortController();
  readonly #timers = new Map<"shared" | "slow", Timer>();
  readonly #running = new Set<Promise<void>>();
  /** By uid. */
  readonly #histories = new Map<string, MeasurementHistory>();
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StorageMonitorOptions) {
    this.#options = options;
    this.#arm("shared", () => this.#checkShared());
    this.#arm("slow", () => this.#checkSlow());
  }

  /** Ends running measurements, and waits for their end. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const timer of this.#timers.values()) timer.cancel();
    await Promise.all(this.#running);
  }

  /** Measures the Pods that are due now. */
  async check(): Promise<void> {
    await this.#checkShared();
    await this.#checkSlow();
  }

  /** Measures the Pods with few files together. */
  async #checkShared(): Promise<void> {
    this.#forgetEnded();
    const due = await Promise.all(this.#due(false).map(locate));
    const paths = due.flatMap(limitedPaths);
    const measurement = await this.#measure(paths, sharedTimeoutMs);
    for (const limited of due) this.#conclude(limited, measurement);
  }

  /** Measures the Pods with many files, each path on its own. */
  async #checkSlow(): Promise<void> {
    const { clock } = this.#options;
    for (let [next] = this.#due(true); next !== undefined; [next] = this.#due(true)) {
      const located = await locate(next);
      const endsAt = clock.monotonic() + podTimeoutMs;
      const parts: Measurement[] = [];
      for (const path of limitedPaths(located)) {
        const isOver = clock.monotonic() >= endsAt;
        parts.push(isOver ? { measured: new Map(), slowest: path } : await this.#measure([path], pathTimeoutMs));
        // What is known may be enough to evict the Pod.
        if (this.#stopping.signal.aborted || isOver) break;
      }
      this.#conclude(located, merged(parts));
    }
  }

  /** Pods with many files in the order in which they are due, others so that those that are known to be fast come first. */
  #due(isSlow: boolean): readonly Limited[] {
    if (this.#stopping.signal.aborted) return [];
    const now = this.#options.clock.monotonic();
    const key = isSlow ? "dueAt" : "order";
    return this.#options
      .pods()
      .flatMap((monitored) => {
        const history = this.#historyOf(monitored);
        const limits = isCritical(monitored.pod) ? undefined : storageLimits(monitored.pod);
        const isDue = history.isSlow === isSlow && history.dueAt <= now;
        return limits === undefined || !isDue ? [] : [{ monitored, limits, history }];
      })
      .sort(({ history: a }, { history: b }) => (a[key] === b[key] ? 0 : a[key] - b[key]));
  }

  /** A measurement that fails has no results. */
  async #measure(paths: readonly string[], timeoutMs: number): Promise<Measurement> {
    try {
      const measurement = await this.#options.measure(paths, timeoutMs, this.#stopping.signal);
      if (measurement.failure !== undefined) this.#warn(measurement.failure);
      return measurement;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!this.#stopping.signal.aborted) this.#warn({ reason });
      return { measured: new Map(), failure: { paths, reason } };
    }
  }

  #conclude(located: Located, measurement: Measurement): void {
    if (this.#stopping.signal.aborted) return;
    const { clock, log } = this.#options;
    const { monitored } = located;
    const uid = uidOf(monitored.pod);
    const outcome = outcomeOf(located, measurement);
    const history = afterMeasurement(this.#historyOf(monitored), outcome, { now: clock.monotonic(), intervalMs });
    this.#histories.set(uid, history);
    if (outcome.kind === "timedOut" && history.timeouts > 0) {
      const fields = { pod: podKey(monitored.pod), path: measurement.slowest, attempt: history.timeouts };
      log.warn(fields, "a pod has too many files to count its disk usage");
    }
    const message = excessOf(located, measurement) ?? (history.timeouts >= maxTimeouts ? uncountable : undefined);
    if (message !== undefined) monitored.evict(message);
  }

  #historyOf({ pod }: MonitoredPod): MeasurementHistory {
    return this.#histories.get(uidOf(pod)) ?? unmeasured;
  }

  #forgetEnded(): void {
    const running = new Set(this.#options.pods().map(({ pod }) => uidOf(pod)));
    for (const uid of this.#histories.keys()) if (!running.has(uid)) this.#histories.delete(uid);
  }

  #warn(fields: { readonly paths?: readonly string[]; readonly reason: string }): void {
    const { clock, log } = this.#options;
    const now = clock.monotonic();
    if (now - this.#warnedAt < warningIntervalMs) return;
    this.#warnedAt = now;
    const [path] = fields.paths ?? [];
    log.warn(
      { reason: fields.reason, path },
      "could not measure the disk usage of pods, so their limits have no effect; retrying",
    );
  }

  #arm(name: "shared" | "slow", check: () => Promise<void>): void {
    if (this.#stopping.signal.aborted) return;
    const run = (): void => {
      const running = check()
        .catch((error: unknown) => this.#warn({ reason: String(error) }))
        .finally(() => {
          this.#running.delete(running);
          this.#arm(name, check);
        });
      this.#running.add(running);
    };
    this.#timers.set(name, this.#options.clock.setTimer(intervalMs, run, { background: true }));
  }
}

const uncountable = `Pod has too many files to count its local ephemeral storage usage: ${maxTimeouts} consecutive measurements exceeded ${pathTimeoutMs / 1000}s per volume or container. `;

const locate = async (limited: Limited): Promise<Located> => ({ ...limited, paths: await storagePaths(limited.monitored) });

const uidOf = ({ metadata }: PodView): string => metadata.uid ?? "";

/**
 * Whether the node never evicts or rejects a Pod for lack of space. Unlike the kubelet, only Pods of the system's namespace are critical:
 * a user who may create Pods may also set this priority, and could otherwise fill the disk.
 */
export const isCritical = ({ metadata, spec }: PodView): boolean =>
  metadata.namespace === "kube-system" && (spec.priority ?? 0) >= criticalPriority;
