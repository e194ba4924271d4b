import type { RobotIdentity } from "./robot-identity.ts";
import { isSameDigest, sha256Hex } from "./secret.ts";

/** What a robot presents when it connects to the embedded broker. */
export interface ConnectAttempt {
  readonly robotId: string;
  /** Absent for an original agent, which presents nothing. */
  readonly password?: Uint8Array;
  /** The certificate of the TLS connection, if the robots' authority has signed it for this robot. */
  readonly certificate?: { readonly keySha256: string; readonly isExpired: boolean };
}

/** Result of an attempt. `identity` says what was checked. */
export type Authentication =
  | { readonly kind: "accepted"; readonly identity: "key" | "credential" | "join-token" | "none" }
  | { readonly kind: "rejected"; readonly reason: RejectionReason; readonly message: string };

/** Why an attempt was rejected. Also the reason of the event. */
export type RejectionReason =
  | "WrongJoinToken"
  | "WrongCredential"
  | "WrongKey"
  | "KeyRevoked"
  | "CertificateExpired"
  | "V1AgentNotAllowed";

/** What decisions about attempts are based on. */
export interface AuthenticationPolicy {
  readonly isJoinToken: (text: Uint8Array) => boolean;
  /** SHA-256 (hex) of the credential that a robot is bound to; undefined if it has not joined yet. */
  readonly credentialOf: (robotId: string) => string | undefined;
  /** The key that a robot is bound to; undefined if it has not joined with a key. */
  readonly identityOf: (robotId: string) => Pick<RobotIdentity, "keySha256" | "isRevoked"> | undefined;
  /** Whether original agents, which present neither token nor credential to the broker, may connect. */
  readonly allowsV1Agents: boolean;
}

/**
 * Authenticates a robot.
 *
 * **Guarantees**: the join token admits a robot only until it is bound to a credential, which its agent generates. After that, only this
 * agent can connect as the robot, and an agent with the join token or another robot's credential cannot. An original agent cannot connect
 * as a robot that is bound. A robot that has joined with a key is admitted only with a certificate of this key that is neither expired nor
 * revoked.
 */
export function authenticateRobot(attempt: ConnectAttempt, policy: AuthenticationPolicy): Authentication {
  const { robotId, password } = attempt;
  const identity = policy.identityOf(robotId);
  if (identity !== undefined || attempt.certificate !== undefined) return authenticateKey(attempt, identity);
  const bound = policy.credentialOf(robotId);
  if (password === undefined) {
    if (policy.allowsV1Agents && bound === undefined) return { kind: "accepted", identity: "none" };
    const problem = bound === undefined ? "original agents require --allow-v1-agents" : `${robotId} is bound to a credential`;
    return { kind: "rejected", reason: "V1AgentNotAllowed", message: `the agent presented no credentials: ${problem}` };
  }
  if (bound !== undefined) {
    if (isSameDigest(sha256Hex(password), bound)) return { kind: "accepted", identity: "credential" };
    const message = `${robotId} is bound to the credential of another agent; to admit a new agent, remove the annotation ${credentialAnnotation} from its Robot`;
    return { kind: "rejected", reason: "WrongCredential", message };
  }
  return policy.isJoinToken(password)
    ? { kind: "accepted", identity: "join-token" }
    : { kind: "rejected", reason: "WrongJoinToken", message: "the agent presented a wrong join token" };
}

function authenticateKey(
  { robotId, certificate }: ConnectAttempt,
  identity: ReturnType<AuthenticationPolicy["identityOf"]>,
): Authentication {
  const reject = (reason: RejectionReason, message: string): Authentication => ({ kind: "rejected", reason, message });
  if (certificate === undefined) {
    return reject("WrongKey", `${robotId} has joined with a key, and the agent presented no certificate of it`);
  }
  if (identity === undefined) return reject("WrongKey", `${robotId} has not joined with the agent's key, or was deleted`);
  if (!isSameDigest(certificate.keySha256, identity.keySha256)) {
    return reject("WrongKey", `${robotId} has joined with another key`);
  }
  if (identity.isRevoked) return reject("KeyRevoked", `the key of ${robotId} is revoked`);
  if (certificate.isExpired)
    return reject("CertificateExpired", `the certificate of ${robotId} has expired; its agent renews it`);
  return { kind: "accepted", identity: "key" };
}

/** Annotation of a Robot: SHA-256 (hex) of the credential that it is bound to. Written by the bridge when the robot joins. */
export const credentialAnnotation = "robot.k8s4r.io/credential-sha256";
