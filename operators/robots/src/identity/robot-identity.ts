import { X509Certificate } from "node:crypto";
import type { DeepReadonly } from "@keelson/api-machinery";
import { heldAnnotation } from "../api/names.ts";
import type { Robot } from "../api/robot.ts";
import { credentialAnnotation } from "./robot-authentication.ts";

/** The key that a robot is bound to, as the broker and the bridge check it. */
export interface RobotIdentity {
  /** SHA-256 (hex) of the public key. */
  readonly keySha256: string;
  /** SubjectPublicKeyInfo (DER, base64). */
  readonly publicKey: string;
  readonly isRevoked: boolean;
}

/** The key that a Robot is bound to. Undefined if it has not joined with a key. */
export function identityOf(robot: DeepReadonly<Robot> | undefined): RobotIdentity | undefined {
  const identity = robot?.status?.identity;
  if (identity === undefined) return undefined;
  const { keySha256, publicKey } = identity;
  return { keySha256, publicKey, isRevoked: isRevoked(robot, keySha256) };
}

/** Whether a key or credential (SHA-256) is revoked for a Robot. */
export function isRevoked(robot: DeepReadonly<Robot> | undefined, digest: string): boolean {
  return robot?.spec.revokedKeys?.includes(digest) === true;
}

/** Whether a robot may get work: it is approved and not held, and its key is not revoked. */
export function mayGetWork(robot: DeepReadonly<Robot> | undefined): boolean {
  if (robot?.metadata.annotations?.[heldAnnotation] !== undefined || identityOf(robot)?.isRevoked === true) return false;
  return (robot?.status?.phase ?? "Pending") !== "Pending";
}

/** SHA-256 of the key, otherwise of the credential, that a Robot is bound to. Undefined if it has neither. */
export function boundDigest(robot: DeepReadonly<Robot>): string | undefined {
  return robot.status?.identity?.keySha256 ?? robot.metadata.annotations?.[credentialAnnotation];
}

/** Whether a Robot is approved, or would be if it was not held. */
export function isApprovedWithoutHold(robot: DeepReadonly<Robot>): boolean {
  const { spec, status } = robot;
  if (spec.approved !== undefined) return spec.approved;
  if (status?.identity !== undefined) return status.identity.requiresApproval !== true;
  return status?.conditions?.some(({ type, status: value }) => type === "Approved" && value === "True") === true;
}

/** Serial numbers (hexadecimal) of the certificates of a Robot that have not expired, and whose key is revoked or was replaced. */
export function revokedSerials(robot: DeepReadonly<Robot>, now: number): readonly string[] {
  const { identity } = robot.status ?? {};
  if (identity === undefined) return [];
  const serial = new X509Certificate(identity.certificate).serialNumber.toLowerCase();
  const { keySha256, expires } = identity;
  return [...(identity.earlier ?? []), { serial, keySha256, expires }]
    .filter((each) => Date.parse(each.expires) > now)
    .filter((each) => each.keySha256 !== keySha256 || isRevoked(robot, each.keySha256))
    .map((each) => each.serial);
}
