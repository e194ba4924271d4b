import type { DeepReadonly } from "@keelson/api-machinery";
import type { DisconnectPolicy, ReschedulePolicy } from "../api/policies.ts";
import { durationMsOf } from "./durations.ts";

/** A disconnect policy with defaults, durations parsed. */
export interface CompleteDisconnectPolicy extends Required<Omit<DisconnectPolicy, "lostAfter">> {
  readonly lostAfterMs: number;
}

/** Minimum of `lostAfter`: a robot needs time to renew its lease, and to stop the program before it expires. */
export const minLostAfterMs = 10_000;

/** Default of `lostAfter`. */
export const defaultLostAfterMs = 5 * 60_000;

/** The policy of a task. Undefined if the task waits for its robot, however long that takes. */
export function disconnectPolicyOf(
  spec: DeepReadonly<{ disconnect?: DisconnectPolicy; reschedulePolicy?: ReschedulePolicy }>,
): CompleteDisconnectPolicy | undefined {
  if (spec.disconnect === undefined && spec.reschedulePolicy === undefined) return undefined;
  const { lostAfter, onRobot = "stop", replace = true, reconcile = "keepOriginal" } = spec.disconnect ?? {};
  const lostAfterMs = lostAfter === undefined ? defaultLostAfterMs : Math.max(durationMsOf(lostAfter), minLostAfterMs);
  return { lostAfterMs, onRobot, replace, reconcile };
}

/**
 * Time after which a lease that was last renewed at `renewedUntilMs` (by the operator's clock) has expired on the robot. It allows for
 * a robot whose clock runs slower by up to 1 %, and for 10 seconds between the clocks of the operator's replicas.
 */
export function leaseExpiryMs(renewedUntilMs: number, leaseMs: number): number {
  return renewedUntilMs + leaseMs + leaseMs / 100 + 10_000;
}
