import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { MeasureDiskUsage } from "../eviction/disk-usage.ts";
import { isCritical, type MonitoredPod } from "../eviction/storage-monitor.ts";
import { podKey } from "../pod/pod-view.ts";
import { evictionMessage, rankForEviction } from "./eviction-ranking.ts";
import { measurePods } from "./pod-disk-usage.ts";
import { type PressureState, stepPressure } from "./pressure-state.ts";
import {
  diskSignals,
  type DiskSignal,
  type DiskSpace,
  type MetThreshold,
  metThresholds,
  type Thresholds,
} from "./thresholds.ts";

/** Options of {@link DiskPressure}. */
export interface DiskPressureOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly thresholds: Thresholds;
  /** How long the disk must stay clear of all thresholds before the pressure ends. */
  readonly transitionMs: number;
  readonly readSpace: () => Promise<DiskSpace>;
  /** Counts bytes for `nodefs.available`, files for `nodefs.inodesFree`. */
  readonly measure: Readonly<Record<DiskSignal, MeasureDiskUsage>>;
  /** The Pods that run now. */
  readonly pods: () => readonly MonitoredPod[];
  /** Removes files of the node that no running Pod needs. */
  readonly reclaim: () => Promise<void>;
  /** Called when the pressure begins or ends. */
  readonly onChange: () => void;
  /** Called when a threshold is met that was not met before. */
  readonly onThresholdMet: (signal: DiskSignal) => void;
}

/** The interval of the kubelet's housekeeping. */
const intervalMs = 10_000;

/**
 * Watches the free space of the node's disk, as the kubelet's eviction manager does. While it is below a threshold, unused files
 * are removed, and if that is not enough, one Pod after another is evicted. Looks every ten seconds, which is one system call.
 */
export class DiskPressure {
  readonly #options: DiskPressureOptions;
  readonly #stopping = new AbortController();
  #state: PressureState = { kind: "relaxed" };
  #met: ReadonlySet<DiskSignal> = new Set();
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;

  constructor(options: DiskPressureOptions) {
    this.#options = options;
  }

  /** Whether the node is low on disk space, or was until recently. */
  get isPresent(): boolean {
    return this.#state.kind === "pressure";
  }

  /** Looks once, and then until {@link stop}. */
  async start(): Promise<void> {
    await this.#look().catch((error: unknown) => this.#warn(error));
    this.#arm();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#timer?.cancel();
    await this.#running;
  }

  /** Looks, and frees space if there is too little. */
  async check(): Promise<void> {
    if ((await this.#look()).length === 0) return;
    await this.#options.reclaim();
    const [met] = await this.#look();
    if (met !== undefined && !this.#stopping.signal.aborted) await this.#evictOne(met);
  }

  async #look(): Promise<readonly MetThreshold[]> {
    const { clock, thresholds, transitionMs, readSpace, onChange, onThresholdMet } = this.#options;
    const met = metThresholds(thresholds, await readSpace());
    const before = this.#met;
    this.#met = new Set(met.map(({ signal }) => signal));
    for (const signal of diskSignals) if (this.#met.has(signal) && !before.has(signal)) onThresholdMet(signal);
    const wasPresent = this.isPresent;
    this.#state = stepPressure(this.#state, met.length > 0, clock.monotonic(), transitionMs);
    if (this.isPresent !== wasPresent) onChange();
    return met;
  }

  async #evictOne(met: MetThreshold): Promise<void> {
    const { clock, log, measure } = this.#options;
    const { signal } = this.#stopping;
    const pods = this.#options.pods().filter(({ pod }) => !isCritical(pod));
    const options = { measure: measure[met.signal], clock, signal, isInBytes: met.signal === "nodefs.available" };
    const measured = await measurePods(pods, options);
    const [first] = rankForEviction(measured, met);
    if (signal.aborted) return;
    if (first === undefined) {
      log.warn({ signal: met.signal, free: met.free }, "the node is low on disk space, and no pod can be evicted");
      return;
    }
    log.warn({ signal: met.signal, free: met.free, pod: podKey(first.pod) }, "evicting a pod because of disk pressure");
    first.monitored.evict(evictionMessage(first, met));
  }

  #arm(): void {
    if (this.#stopping.signal.aborted) return;
    const run = (): void => {
      this.#running = this.check()
        .catch((error: unknown) => this.#warn(error))
        .finally(() => this.#arm());
    };
    this.#timer = this.#options.clock.setTimer(intervalMs, run, { background: true });
  }

  #warn(error: unknown): void {
    if (!this.#stopping.signal.aborted) this.#options.log.warn({ err: error }, "could not free disk space; retrying");
  }
}
