import type { LoadStage } from "./load-plan.ts";

interface Segment {
  readonly startMs: number;
  readonly durationMs: number;
  /** Requests before the segment. */
  readonly before: number;
  /** Requests within it. */
  readonly count: number;
  /** Requests per millisecond at its start and end. */
  readonly from: number;
  readonly to: number;
}

/** When each request of an open model is due. Request `n` (from 0) is due when the integral of the rate reaches `n`. */
export class ArrivalSchedule {
  readonly #segments: readonly Segment[];
  /** Number of requests. */
  readonly total: number;

  constructor(stages: readonly LoadStage[]) {
    const segments: Segment[] = [];
    let [startMs, before] = [0, 0];
    for (const { durationMs, from, to } of stages) {
      const count = ((from + to) / 2_000) * durationMs;
      segments.push({ startMs, durationMs, before, count, from: from / 1_000, to: to / 1_000 });
      startMs += durationMs;
      before += count;
    }
    this.#segments = segments;
    // A rate of 0.1 and a duration of 10 s are one request, despite rounding.
    this.total = Math.ceil(before - 1e-6);
  }

  /** Milliseconds from the start of the load until request `n` is due. */
  timeOf(n: number): number {
    const segment = this.#segments.find(({ before, count }) => n < before + count) ?? this.#segments.at(-1);
    if (segment === undefined) return 0;
    const { startMs, durationMs, from, to } = segment;
    const left = n - segment.before;
    if (left <= 0) return startMs;
    // The root of from * t + (to - from) * t^2 / (2 * duration) = left, in a form that is stable for a constant rate.
    const root = Math.sqrt(Math.max(from * from + (2 * left * (to - from)) / durationMs, 0));
    return startMs + Math.min((2 * left) / (from + root), durationMs);
  }
}
