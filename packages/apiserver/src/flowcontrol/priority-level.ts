import { createHash } from "node:crypto";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { type DemandSummary, SeatDemand } from "./seat-demand.ts";

/** The right to execute a request. */
export interface Seat {
  /** Frees the seats. Further calls have no effect. */
  release(): void;
}

/** Why a request got no seat. */
export type Rejection = "concurrency-limit" | "queue-full" | "time-out" | "cancelled";

/** The configuration of a {@link PriorityLevel}. */
export interface PriorityLevelLimits {
  /** Maximum number of occupied seats. */
  readonly seats: number;
  /** Undefined rejects requests instead of queuing them. */
  readonly queuing: { readonly queues: number; readonly handSize: number; readonly queueLengthLimit: number } | undefined;
}

interface Waiting {
  readonly seats: number;
  readonly queue: Queue;
  readonly timer: Timer;
  settle(result: Seat | Rejection): void;
}

interface Queue {
  readonly waiting: Waiting[];
  /** Seat-milliseconds this queue has used, relative to the other queues. The queue with the lowest value is served next. */
  virtualTime: number;
}

/** Assumed duration of a request until it completes. */
const estimatedMs = 3;

/**
 * A priority level of API Priority and Fairness (KEP-1040): executes requests within a number of seats and queues the others. Flows are
 * distributed over queues by shuffle sharding, and the queues share the seats fairly: a flow that sends more than its share only delays
 * the queues in its own hand.
 *
 *     flow -> hash -> hand of 6 of 128 queues -> shortest of them -> seats
 */
export class PriorityLevel {
  readonly #clock: Clock;
  readonly #maxWaitMs: number;
  readonly #queues = new Map<number, Queue>();
  readonly #demand: SeatDemand;
  #limits: PriorityLevelLimits;
  #occupied = 0;
  #waiting = 0;
  /** Virtual time of the queue served last. An idle queue starts from it, so that it cannot save up its share. */
  #virtualTime = 0;

  constructor(clock: Clock, limits: PriorityLevelLimits, maxWaitMs: number) {
    this.#clock = clock;
    this.#demand = new SeatDemand(clock.monotonic());
    this.#limits = limits;
    this.#maxWaitMs = maxWaitMs;
  }

  /** Number of occupied seats. */
  get occupied(): number {
    return this.#occupied;
  }

  /** Number of queued requests. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Maximum number of occupied seats. */
  get seats(): number {
    return this.#limits.seats;
  }

  /** The demand for seats since the last call. */
  takeDemand(): DemandSummary {
    return this.#demand.take(this.#clock.monotonic());
  }

  /** Replaces the limits. Queued requests stay queued. */
  configure(limits: PriorityLevelLimits): void {
    this.#limits = limits;
    this.#dispatch();
  }

  /** Waits for seats. `flow` identifies the flow; `seats` is capped at the limit of the level. `signalOf` is called only to wait. */
  async acquire(flow: string, seats: number, signalOf?: () => AbortSignal): Promise<Seat | Rejection> {
    const width = Math.max(1, Math.min(seats, this.#limits.seats));
    const { queuing } = this.#limits;
    if (this.#waiting === 0 && this.#fits(width)) {
      this.#demand.add(width, this.#clock.monotonic());
      return this.#occupy(width, this.#queueOf(flow));
    }
    if (queuing === undefined) return "concurrency-limit";
    const queue = this.#queueOf(flow);
    if (queue.waiting.length >= queuing.queueLengthLimit) return "queue-full";
    const signal = signalOf?.();
    return new Promise((resolve) => {
      const settle = (result: Seat | Rejection): void => {
        waiting.timer.cancel();
        signal?.removeEventListener("abort", cancel);
        resolve(result);
      };
      const leave = (reason: Rejection): void => {
        const index = queue.waiting.indexOf(waiting);
        if (index < 0) return;
        queue.waiting.splice(index, 1);
        this.#waiting--;
        this.#demand.add(-width, this.#clock.monotonic());
        settle(reason);
      };
      const cancel = (): void => leave("cancelled");
      const timer = this.#clock.setTimer(this.#maxWaitMs, () => leave("time-out"), { background: true });
      const waiting: Waiting = { seats: width, queue, timer, settle };
      if (queue.waiting.length === 0) queue.virtualTime = Math.max(queue.virtualTime, this.#virtualTime);
      queue.waiting.push(waiting);
      this.#waiting++;
      this.#demand.add(width, this.#clock.monotonic());
      signal?.addEventListener("abort", cancel, { once: true });
      this.#dispatch();
    });
  }

  #fits(seats: number): boolean {
    return this.#occupied === 0 || this.#occupied + seats <= this.#limits.seats;
  }

  #occupy(seats: number, queue: Queue): Seat {
    this.#occupied += seats;
    queue.virtualTime = Math.max(queue.virtualTime, this.#virtualTime) + seats * estimatedMs;
    const start = this.#clock.now();
    let isReleased = false;
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        this.#occupied -= seats;
        this.#demand.add(-seats, this.#clock.monotonic());
        queue.virtualTime += seats * (this.#clock.now() - start - estimatedMs);
        this.#dispatch();
      },
    };
  }

  #dispatch(): void {
    while (this.#waiting > 0) {
      const queue = this.#nextQueue();
      const next = queue?.waiting[0];
      if (queue === undefined || next === undefined || !this.#fits(next.seats)) return;
      queue.waiting.shift();
      this.#waiting--;
      this.#virtualTime = Math.max(this.#virtualTime, queue.virtualTime);
      next.settle(this.#occupy(next.seats, queue));
    }
  }

  #nextQueue(): Queue | undefined {
    let best: Queue | undefined;
    for (const queue of this.#queues.values()) {
      if (queue.waiting.length > 0 && (best === undefined || queue.virtualTime < best.virtualTime)) best = queue;
    }
    return best;
  }

  /** The shortest queue in the hand of a flow. */
  #queueOf(flow: string): Queue {
    const { queues, handSize } = this.#limits.queuing ?? { queues: 1, handSize: 1 };
    let best: Queue | undefined;
    for (const index of dealHand(flow, queues, handSize)) {
      let queue = this.#queues.get(index);
      if (queue === undefined) this.#queues.set(index, (queue = { waiting: [], virtualTime: this.#virtualTime }));
      if (best === undefined || queue.waiting.length < best.waiting.length) best = queue;
    }
    return best ?? { waiting: [], virtualTime: 0 };
  }
}

/** Deals `handSize` distinct queues to a flow, the same for every request of the flow. */
export function dealHand(flow: string, queues: number, handSize: number): number[] {
  let entropy = createHash("sha256").update(flow).digest().readBigUInt64BE(0);
  const hand: number[] = [];
  for (let card = 0; card < Math.min(handSize, queues); card++) {
    const left = BigInt(queues - card);
    let index = Number(entropy % left);
    entropy /= left;
    for (const dealt of [...hand].sort((a, b) => a - b)) if (dealt <= index) index++;
    hand.push(index);
  }
  return hand;
}
