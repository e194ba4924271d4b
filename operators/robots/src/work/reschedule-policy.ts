import type { DeepReadonly } from "@keelson/api-machinery";
import { isLongRunning, type JobType } from "../api/job.ts";
import type { ReschedulePolicy } from "../api/policies.ts";
import { attemptWindowAt } from "./attempt-window.ts";
import { durationMsOf } from "./durations.ts";

/** Past moves of a task. */
export interface PastMoves {
  /** Start of the current interval, in milliseconds since the epoch. */
  readonly windowStartMs: number | undefined;
  readonly movesInWindow: number;
  /** Number of moves that determine the delay of the next one. */
  readonly consecutive: number;
}

/** Whether and when a task moves to another robot. */
export type RescheduleDecision =
  | {
      readonly kind: "move";
      /** Delay from the failure or loss, in milliseconds. */
      readonly delayMs: number;
      /** Input of the next decision. */
      readonly windowStartMs: number;
      readonly movesInWindow: number;
      readonly consecutive: number;
    }
  | { readonly kind: "stay"; readonly why: string };

/** The policy with Nomad's defaults for missing fields: `service` moves without limit, `batch` once in 24 hours. */
export function completeReschedulePolicy(
  policy: DeepReadonly<ReschedulePolicy> | undefined,
  type: JobType | undefined,
): Required<ReschedulePolicy> {
  const { attempts, unlimited, ...rest } = policy ?? {};
  return {
    interval: "24h",
    delay: "30s",
    delayFunction: "exponential",
    maxDelay: "1h",
    ...rest,
    attempts: attempts ?? 1,
    unlimited: unlimited ?? (attempts === undefined && isLongRunning(type)),
  };
}

/**
 * Decides whether a task moves. `ranMs` is how long its last attempt ran: the delay starts anew after an attempt that ran longer than
 * `maxDelay`.
 */
export function decideReschedule(
  policy: Required<ReschedulePolicy>,
  past: PastMoves,
  { now, ranMs }: { readonly now: number; readonly ranMs: number },
): RescheduleDecision {
  const { attempts, interval, unlimited, maxDelay } = policy;
  const window = attemptWindowAt({ startMs: past.windowStartMs, used: past.movesInWindow }, durationMsOf(interval), now);
  const { startMs: windowStartMs, used } = window;
  if (!unlimited && used >= attempts) {
    const why =
      attempts === 0 ? "the reschedule policy has 0 attempts" : `${used} of ${attempts} moves within ${interval} are used up`;
    return { kind: "stay", why };
  }
  const before = ranMs > durationMsOf(maxDelay) ? 0 : past.consecutive;
  const delayMs = rescheduleDelayMs(policy, before);
  return { kind: "move", delayMs, windowStartMs, movesInWindow: used + 1, consecutive: before + 1 };
}

/** Delay before the move that follows `moves` others. */
export function rescheduleDelayMs(
  { delay, delayFunction, maxDelay }: Pick<Required<ReschedulePolicy>, "delay" | "delayFunction" | "maxDelay">,
  moves: number,
): number {
  const baseMs = durationMsOf(delay);
  // A constant delay is not capped, as in Nomad.
  if (delayFunction === "constant") return baseMs;
  const factor = delayFunction === "exponential" ? 2 ** Math.min(moves, 64) : fibonacci(Math.min(moves, 64));
  return Math.min(baseMs * factor, durationMsOf(maxDelay));
}

/** 1, 1, 2, 3, 5 ... */
function fibonacci(index: number): number {
  let [current, next] = [1, 1];
  for (let step = 0; step < index; step++) [current, next] = [next, current + next];
  return current;
}
