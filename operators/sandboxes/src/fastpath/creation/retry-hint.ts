import type { DeepReadonly } from "@keelson/api-machinery";
import type { Sandbox } from "../../api/sandbox.ts";
import { expiryOf } from "../../controllers/lifetime.ts";
import { hasEnded } from "../../controllers/sandbox-decision.ts";

/** Trailer by which gRPC servers ask clients to wait before a retry (gRFC A6), in milliseconds. */
export const retryPushbackHeader = "grpc-retry-pushback-ms";

/** Bounds of a retry hint: a slot may be freed earlier or later than known. */
const minRetryMs = 1_000;
const maxRetryMs = 60_000;

/** The hint if no sandbox of the pool expires. */
const defaultRetryMs = 5_000;

/** When a slot is likely to be free: at the nearest expiry of the pool's sandboxes, 1 to 60 s from now. */
export function retryHintMs(sandboxes: readonly DeepReadonly<Sandbox>[], now: number): number {
  const expiries = sandboxes.filter((sandbox) => !hasEnded(sandbox)).map(({ spec }) => expiryOf(spec));
  const nearest = Math.min(...expiries.filter((time) => time !== undefined));
  if (!Number.isFinite(nearest)) return defaultRetryMs;
  return Math.min(Math.max(nearest - now, minRetryMs), maxRetryMs);
}
