import type { DeepReadonly } from "@keelson/api-machinery";
import type { JobType } from "../api/job.ts";
import type { RestartPolicy } from "../api/policies.ts";
import { attemptWindowAt } from "./attempt-window.ts";
import { durationMsOf } from "./durations.ts";

/** Default restart policy of a Job type (Nomad's defaults). */
function defaultRestartPolicy(type: JobType | undefined): Required<RestartPolicy> {
  return type === "service"
    ? { attempts: 2, interval: "30m", delay: "15s", mode: "fail" }
    : { attempts: 3, interval: "24h", delay: "15s", mode: "fail" };
}

/** The policy with defaults for missing fields. */
export function completeRestartPolicy(
  policy: DeepReadonly<RestartPolicy> | undefined,
  type: JobType | undefined,
): Required<RestartPolicy> {
  return { ...defaultRestartPolicy(type), ...policy };
}

/** What follows a failed attempt. */
export type RestartDecision =
  | {
      readonly kind: "restart";
      /** Milliseconds since the epoch. */
      readonly atMs: number;
      /** Input of the next decision. */
      readonly windowStartMs: number;
      readonly restartsInWindow: number;
    }
  | { readonly kind: "fail"; readonly why: string };

/** Decides whether an attempt that failed at `now` is restarted. A task without a policy is not restarted. */
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
  const window = attemptWindowAt({ startMs: past.windowStartMs, used: past.restartsInWindow }, intervalMs, now);
  const { startMs: windowStartMs, used } = window;
  if (used < attempts) return { kind: "restart", atMs: now + delayMs, windowStartMs, restartsInWindow: used + 1 };
  if (mode === "fail") return { kind: "fail", why: `${attempts} of ${attempts} restarts within ${interval} are used up` };
  const nextWindowMs = windowStartMs + intervalMs;
  const atMs = Math.max(nextWindowMs, now + delayMs);
  return { kind: "restart", atMs, windowStartMs: atMs, restartsInWindow: 1 };
}
