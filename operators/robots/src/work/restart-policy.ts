import type { DeepReadonly } from "@keelson/api-machinery";
import { isDuration, parseDuration } from "@keelson/api-machinery/time";
import type { RestartPolicy } from "../api/policies.ts";

/** What a policy falls back on, by the type of the Job (Nomad's defaults). */
export function defaultRestartPolicy(type: "service" | "batch" | "system" | undefined): Required<RestartPolicy> {
  return type === "service"
    ? { attempts: 2, interval: "30m", delay: "15s", mode: "fail" }
    : { attempts: 3, interval: "24h", delay: "15s", mode: "fail" };
}

/** The policy with what it leaves out filled in. */
export function completeRestartPolicy(
  policy: DeepReadonly<RestartPolicy> | undefined,
  type: "service" | "batch" | "system" | undefined,
): Required<RestartPolicy> {
  return { ...defaultRestartPolicy(type), ...policy };
}

/** How a failed attempt goes on. */
export type RestartDecision =
  | {
      readonly kind: "restart";
      /** Milliseconds since the epoch. */
      readonly atMs: number;
      /** What to remember for the next decision. */
      readonly windowStartMs: number;
      readonly restartsInWindow: number;
    }
  | { readonly kind: "fail"; readonly why: string };

/** Decides whether an attempt that failed at `now` is followed by another. A task without a policy is not started again. */
export function decideRestart(
  policy: DeepReadonly<RestartPolicy> | undefined,
  past: { readonly windowStartMs: number | undefined; readonly restartsInWindow: number },
  now: number,
): RestartDecision {
  if (policy === undefined) return { kind: "fail", why: "no restart policy" };
  const { attempts, interval, delay, mode } = completeRestartPolicy(policy, undefined);
  if (attempts === 0) return { kind: "fail", why: "the restart policy has 0 attempts" };
  const intervalMs = durationMsOf(interval);
  const delayMs = durationMsOf(delay);
  const isInWindow = past.windowStartMs !== undefined && now < past.windowStartMs + intervalMs;
  const windowStartMs = isInWindow && past.windowStartMs !== undefined ? past.windowStartMs : now;
  const used = isInWindow ? past.restartsInWindow : 0;
  if (used < attempts) return { kind: "restart", atMs: now + delayMs, windowStartMs, restartsInWindow: used + 1 };
  if (mode === "fail") return { kind: "fail", why: `${attempts} of ${attempts} restarts within ${interval} are used up` };
  const nextWindowMs = windowStartMs + intervalMs;
  const atMs = Math.max(nextWindowMs, now + delayMs);
  return { kind: "restart", atMs, windowStartMs: atMs, restartsInWindow: 1 };
}

/** Durations are checked at admission; one that got past it counts as none. */
function durationMsOf(text: string): number {
  return isDuration(text) ? parseDuration(text) : 0;
}
