import type { DeepReadonly } from "@keelson/api-machinery";
import type { Task } from "../api/task.ts";

/** A bridge records that it may renew a lease for this long, so that renewals need few writes. */
export const grantPeriodMs = 15 * 60_000;

/** The recorded time is raised when less than this is left. */
const raiseBeforeMs = 5 * 60_000;

/** The answer to a robot's request for the lease of an attempt. */
export type LeaseDecision =
  | { readonly kind: "grant" }
  /** Record this time first. Without it, grant only if `mayGrant`. */
  | { readonly kind: "raise"; readonly lease: NonNullable<TaskLease>; readonly mayGrant: boolean }
  | { readonly kind: "refuse"; readonly reason: string };

type TaskLease = NonNullable<Task["status"]>["lease"];

/**
 * Decides about a lease of `attempt` on `robotId`. Undefined: the Task does not exist.
 *
 * **Guarantees**: a lease is granted only to the Task's robot, for its current attempt while it has not ended, and not after
 * `status.lease.grantsUntil`.
 */
export function decideLease(
  task: DeepReadonly<Task> | undefined,
  { robotId, attempt }: { readonly robotId: string; readonly attempt: number },
  now: number,
): LeaseDecision {
  const refuse = (reason: string): LeaseDecision => ({ kind: "refuse", reason });
  if (task === undefined) return refuse("the task does not exist");
  const { spec, status, metadata } = task;
  if (spec.targetRobot !== robotId) return refuse("the task is bound to another robot");
  if (status?.attempt !== attempt) return refuse(`the current attempt is ${status?.attempt ?? 0}`);
  if (status.state !== "dispatching" && status.state !== "running") return refuse(`the attempt has ended: ${status.state}`);
  if (metadata.deletionTimestamp !== undefined) return refuse("the task is being deleted");
  if (status.lease?.attempt !== attempt) return refuse("the attempt was dispatched without a lease");
  const remainingMs = Date.parse(status.lease.grantsUntil) - now;
  if (remainingMs >= raiseBeforeMs) return { kind: "grant" };
  const grantsUntil = new Date(now + grantPeriodMs).toISOString();
  return { kind: "raise", lease: { ...status.lease, grantsUntil }, mayGrant: remainingMs > 0 };
}
