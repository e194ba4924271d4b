import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { JoinRequest } from "../identity/join-request.ts";
import type { AuthenticationPolicy, RejectionReason } from "../identity/robot-authentication.ts";
import type { BrokerTls } from "./tls-splitter.ts";

/** Maximum size of an MQTT packet. */
export const maxPacketBytes = 256 * 1024;

/** A client that leaves more unread is disconnected. */
export const maxUnreadBytes = 16 * 1024 * 1024;

/** What `credentialOf` returns for a robot whose credential is revoked. */
export const revokedCredential = "revoked";

/** Options of a broker. */
export interface BrokerOptions {
  /** Default: 127.0.0.1. */
  readonly bindAddress?: string;
  /** 0 picks a free port. Default: 1883. */
  readonly port?: number;
  /** Password of robots that join. */
  readonly joinToken: string;
  /** SHA-256 (hex) of the credential that a robot is bound to. Default: no robot is bound. */
  readonly credentialOf?: (robotId: string) => string | undefined;
  /** The key that a robot is bound to. Default: no robot has one. */
  readonly identityOf?: AuthenticationPolicy["identityOf"];
  /** Loads the certificates of the TLS side. Default: TLS connections are closed. */
  readonly loadTls?: () => Promise<BrokerTls>;
  /** Resolves to why a join request is rejected, or undefined. Default: all are. */
  readonly joinProblem?: (request: JoinRequest) => Promise<string | undefined>;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Whether original agents, which present no credentials to the broker, may connect. Default false. */
  readonly allowsV1Agents?: boolean;
  /** Whether robots without TLS are rejected. Default false. */
  readonly requiresTls?: boolean;
  /** Called when a robot is rejected. */
  readonly onRejected?: (rejection: RobotRejection) => void;
  readonly log: Logger;
  /** Maximum number of concurrent connections. Beyond it, the oldest one that has not authenticated is closed. Default: 2000. */
  readonly maxConnections?: number;
  /** A client that does not read a message within this time is disconnected. Default: 10 s. */
  readonly readTimeoutMs?: number;
  /** Generates the bridge's password. Default: 32 random bytes. */
  readonly random?: () => string;
}

/** A robot that the broker rejected. */
export interface RobotRejection {
  readonly robotId: string;
  readonly reason: RejectionReason | "JoinRejected" | "TlsRequired";
  readonly message: string;
}

/** User name of the bridge and its password, which is generated with every broker. */
export interface BridgeCredentials {
  readonly username: string;
  readonly password: string;
}
