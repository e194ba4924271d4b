import { isSameDigest, sha256Hex } from "./secret.ts";

/** What a robot presents when it connects to the embedded broker. */
export interface ConnectAttempt {
  readonly robotId: string;
  /** Absent for an original agent, which presents nothing. */
  readonly password?: Uint8Array;
}

/** Result of an attempt. `identity` says what was checked. */
export type Authentication =
  | { readonly kind: "accepted"; readonly identity: "credential" | "join-token" | "none" }
  | { readonly kind: "rejected"; readonly reason: RejectionReason; readonly message: string };

/** Why an attempt was rejected. Also the reason of the event. */
export type RejectionReason = "WrongJoinToken" | "WrongCredential" | "V1AgentNotAllowed";

/** What decisions about attempts are based on. */
export interface AuthenticationPolicy {
  readonly isJoinToken: (text: Uint8Array) => boolean;
  /** SHA-256 (hex) of the credential that a robot is bound to; undefined if it has not joined yet. */
  readonly credentialOf: (robotId: string) => string | undefined;
  /** Whether original agents, which present neither token nor credential to the broker, may connect. */
  readonly allowsV1Agents: boolean;
}

/**
 * Authenticates a robot.
 *
 * **Guarantees**: the join token admits a robot only until it is bound to a credential, which its agent generates. After that, only this
 * agent can connect as the robot, and an agent with the join token or another robot's credential cannot. An original agent cannot connect
 * as a robot that is bound.
 */
export function authenticateRobot({ robotId, password }: ConnectAttempt, policy: AuthenticationPolicy): Authentication {
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

/** Annotation of a Robot: SHA-256 (hex) of the credential that it is bound to. Written by the bridge when the robot joins. */
export const credentialAnnotation = "robot.k8s4r.io/credential-sha256";
