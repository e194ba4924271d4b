import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import type { Clock, Timer } from "@keelson/api-machinery/time";

/** What {@link IdleCollection} takes. */
export interface IdleCollectionOptions {
  readonly clock: Clock;
  /** The share of time, 0 to 1, in which the event loop was busy since the last call. */
  readonly utilization: () => number;
  /** Size of the heap, including free pages. */
  readonly heapBytes: () => number;
  /** Collects all garbage, and returns free pages to the operating system. */
  readonly collect: () => void;
}

/** How often the process is checked. */
const intervalMs = 4_000;
/** A process whose event loop is busier than this does not wait for a collection. */
const idleUtilization = 0.05;
/** The heap must have grown by this since the last collection. */
const growth = 1.3;

/**
 * Collects garbage when a process becomes idle. V8 collects only while a program allocates, so that an idle process keeps the memory of its last
 * burst: its start, or many requests. A collection takes a few tens of milliseconds; only an idle process is worth it, and each burst only once
 * or twice, because the second one returns the pages that the first one has emptied.
 */
export class IdleCollection {
  readonly #options: IdleCollectionOptions;
  #timer: Timer | undefined;
  #isStopped = false;
  /** The size of the heap after the last collection. */
  #collectedBytes = 0;
  #isRepeated = true;

  constructor(options: IdleCollectionOptions) {
    this.#options = options;
    options.utilization();
    this.#arm();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #arm(): void {
    if (this.#isStopped) return;
    const look = (): void => {
      this.#look();
      this.#arm();
    };
    this.#timer = this.#options.clock.setTimer(intervalMs, look, { background: true });
  }

  #look(): void {
    const { utilization, heapBytes, collect } = this.#options;
    if (utilization() > idleUtilization) return;
    const hasGrown = heapBytes() > this.#collectedBytes * growth;
    if (!hasGrown && this.#isRepeated) return;
    this.#isRepeated = !hasGrown;
    collect();
    this.#collectedBytes = heapBytes();
    // The collection itself does not count as work.
    utilization();
  }
}

/** Starts an {@link IdleCollection} of this process. Without `--expose-gc` there is none. */
export function startIdleCollection(clock: Clock): { stop(): void } {
  const collect = globalThis.gc;
  if (collect === undefined) return { stop: () => {} };
  let last = performance.eventLoopUtilization();
  return new IdleCollection({
    clock,
    utilization() {
      const { utilization } = performance.eventLoopUtilization(last);
      last = performance.eventLoopUtilization();
      return utilization;
    },
    heapBytes: () => getHeapStatistics().total_heap_size,
    collect: () => collect(),
  });
}
