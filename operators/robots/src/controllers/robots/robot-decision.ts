import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { heldAnnotation, joinTokenAnnotation, joinTokenSecret } from "../../api/names.ts";
import type { Robot } from "../../api/robot.ts";
import { boundDigest, isRevoked } from "../../identity/robot-identity.ts";
import { isSameDigest, joinTokenDigest } from "../../identity/secret.ts";
import { type ConditionClaim, conditionsOf, hasCondition } from "../../work/conditions.ts";

/** A robot is offline after this time without a heartbeat: three heartbeat intervals. */
export const heartbeatTimeoutMs = 90_000;

/** Input of {@link decideRobot}. */
export interface RobotObservation {
  readonly robot: DeepReadonly<Robot>;
  /** The join token of the robot's namespace, or why it is missing. Undefined unless {@link needsJoinToken}. */
  readonly joinToken: { readonly value: string } | { readonly missing: string } | undefined;
  /** When this manager started to watch. It may have missed earlier heartbeats. */
  readonly watchedSince: number;
  readonly now: number;
}

/** Status fields that the controller owns. */
export type RobotStatusDraft = Pick<
  NonNullable<Robot["status"]>,
  "phase" | "message" | "observedGeneration" | "verifiedTokenSha256" | "conditions"
>;

/** The status to write (absent: unchanged), the event to record and when to reconcile again. */
export interface RobotDecision {
  readonly status?: RobotStatusDraft;
  readonly event?: { readonly type: "Normal" | "Warning"; readonly reason: string; readonly note: string };
  readonly requeueAfterMs?: number;
}

/** Whether the decision needs the join token: the registration is not verified yet and `spec.approved` is unset. */
export function needsJoinToken(robot: DeepReadonly<Robot>): boolean {
  const registered = robot.metadata.annotations?.[joinTokenAnnotation];
  return robot.spec.approved === undefined && registered !== undefined && registered !== robot.status?.verifiedTokenSha256;
}

/**
 * Decides about a Robot: its approval and its phase.
 *
 * **Guarantees**: a robot is Online only while it is approved, connected according to the broker and the bridge, and has sent a heartbeat within
 * {@link heartbeatTimeoutMs} (plus the accuracy of the recorded time). A robot that was Online when this manager started gets that long to send one, so that a manager's
 * absence takes no robot offline. An approved registration stays approved when the join token changes.
 */
export function decideRobot({ robot, joinToken, watchedSince, now }: RobotObservation): RobotDecision {
  if (robot.metadata.deletionTimestamp !== undefined) return {};
  const approval = approvalOf(robot, joinToken);
  const presence = approval.isApproved
    ? presenceOf(robot, watchedSince, now)
    : { phase: "Pending" as const, reason: approval.reason, message: approval.message };
  const generation = robot.metadata.generation ?? 0;
  const claims: ConditionClaim[] = [
    {
      type: "Approved",
      status: approval.isApproved ? "True" : "False",
      observedGeneration: generation,
      reason: approval.reason,
      message: approval.message,
    },
    {
      type: "Online",
      status: presence.phase === "Online" ? "True" : "False",
      observedGeneration: generation,
      reason: presence.reason,
      message: presence.message,
    },
  ];
  if (approval.reason === "ClonedIdentity" || hasCondition(robot, "Held")) {
    const isHeld = approval.reason === "ClonedIdentity";
    const reason = isHeld ? "ClonedIdentity" : "Released";
    const message = isHeld ? approval.message : "the robot is not held";
    claims.push({ type: "Held", status: isHeld ? "True" : "False", observedGeneration: generation, reason, message });
  }
  const draft: RobotStatusDraft = {
    phase: presence.phase,
    message: presence.message,
    observedGeneration: generation,
    ...(approval.verified === undefined ? {} : { verifiedTokenSha256: approval.verified }),
    conditions: conditionsOf(claims, robot.status?.conditions, now),
  };
  const requeueAfterMs = "leftMs" in presence ? presence.leftMs : undefined;
  const later = requeueAfterMs === undefined ? {} : { requeueAfterMs };
  if (jsonEquals(draft, ownedPart(robot.status))) return later;
  const event = eventOf(robot, presence, approval);
  return { status: draft, ...(event ? { event } : {}), ...later };
}

function ownedPart(status: DeepReadonly<Robot["status"]>): unknown {
  if (status === undefined) return undefined;
  const { phase, message, observedGeneration, verifiedTokenSha256, conditions } = status;
  return { phase, message, observedGeneration, verifiedTokenSha256, conditions };
}

interface Approval {
  readonly isApproved: boolean;
  readonly reason: string;
  readonly message: string;
  readonly verified?: string;
}

function approvalOf(robot: DeepReadonly<Robot>, joinToken: RobotObservation["joinToken"]): Approval {
  const refused = (reason: string, message: string): Approval => ({ isApproved: false, reason, message });
  if (robot.spec.robotId !== robot.metadata.name) {
    return refused("NameMismatch", `metadata.name must equal spec.robotId, ${robot.spec.robotId}`);
  }
  if (robot.spec.approved === false) return refused("Refused", "spec.approved is false");
  const held = robot.metadata.annotations?.[heldAnnotation];
  if (held !== undefined)
    return refused("ClonedIdentity", `${held}; revoke the key, or approve the robot once one agent is stopped`);
  const bound = boundDigest(robot);
  if (bound !== undefined && isRevoked(robot, bound))
    return refused("KeyRevoked", "the robot's key is revoked; it can join with a new join token");
  if (robot.spec.approved === true) return { isApproved: true, reason: "ApprovedByHand", message: "spec.approved is true" };
  if (robot.status?.identity !== undefined) {
    return robot.status.identity.requiresApproval === true
      ? refused("WaitingForApproval", `the join token requires approval: keelson robots approve ${robot.spec.robotId}`)
      : { isApproved: true, reason: "Joined", message: "the robot joined with a one-time token" };
  }
  const registered = robot.metadata.annotations?.[joinTokenAnnotation];
  if (registered === undefined) return refused("NotRegistered", "waiting for the robot's agent to register");
  const approved: Approval = {
    isApproved: true,
    reason: "JoinTokenAccepted",
    message: "the robot presented the join token",
    verified: registered,
  };
  if (registered === robot.status?.verifiedTokenSha256) return approved;
  if (joinToken === undefined || "missing" in joinToken) {
    return refused("NoJoinToken", joinToken?.missing ?? `Secret ${joinTokenSecret} has not been read yet`);
  }
  return isSameDigest(registered, joinTokenDigest(joinToken.value))
    ? approved
    : refused(
        "WrongJoinToken",
        `the robot registered with a join token that differs from the one in the Secret ${joinTokenSecret}`,
      );
}

interface Presence {
  readonly phase: "Pending" | "Online" | "Offline";
  readonly reason: string;
  readonly message: string;
  readonly leftMs?: number;
}

function presenceOf(robot: DeepReadonly<Robot>, watchedSince: number, now: number): Presence {
  const status = robot.status;
  if (status?.lastHeartbeatTime === undefined) {
    return { phase: "Pending", reason: "NotSeen", message: "waiting for the robot's agent to register" };
  }
  if (status.connected === false)
    return { phase: "Offline", reason: "Disconnected", message: "the robot's agent is not connected" };
  // The bridge records heartbeats rarely and notices silence itself. This is for a bridge that is down.
  const timeoutMs = heartbeatTimeoutMs + (status.heartbeatAccuracySeconds ?? 0) * 1000;
  const heartbeatUntil = Date.parse(status.lastHeartbeatTime) + timeoutMs;
  // The grace is for robots whose heartbeats this manager may have missed while it was down.
  const graceUntil = status.phase === "Online" ? watchedSince + heartbeatTimeoutMs : 0;
  const leftMs = Math.max(heartbeatUntil, graceUntil) - now;
  if (leftMs > 0) return { phase: "Online", reason: "HeartbeatReceived", message: "the robot's agent is reporting", leftMs };
  return {
    phase: "Offline",
    reason: "HeartbeatMissed",
    message: `no heartbeat for ${timeoutMs / 1000} seconds, last one at ${status.lastHeartbeatTime}`,
  };
}

function eventOf(robot: DeepReadonly<Robot>, presence: Presence, approval: Approval): RobotDecision["event"] {
  const before = robot.status?.phase;
  const lastApprovalReason = robot.status?.conditions?.find((condition) => condition.type === "Approved")?.reason;
  if (!approval.isApproved && approval.reason !== "NotRegistered" && lastApprovalReason !== approval.reason) {
    return { type: "Warning", reason: approval.reason, note: approval.message };
  }
  if (presence.phase === "Online" && before !== "Online") return { type: "Normal", reason: "Online", note: presence.message };
  if (presence.phase === "Offline" && before === "Online")
    return { type: "Warning", reason: "Offline", note: presence.message };
  return undefined;
}
