import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, EventRecorder, Logger, OnChange } from "@keelson/controller";
import type { ExecSessions } from "../exec/exec-sessions.ts";
import type { LazyAuthority } from "../identity/authority/lazy-authority.ts";
import type { Joins } from "./registration/joins.ts";
import type { MqttConnectionOptions } from "./mqtt-connection.ts";

/** Options of {@link Bridge}. */
export interface BridgeOptions {
  /** URL of the broker. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** MQTT client id: unique at the broker. */
  readonly clientId: string;
  /** Namespace of the Robots and Tasks. */
  readonly namespace: string;
  readonly client: Client;
  /** Contains Robots, and Tasks with the indexes of `taskReads`. */
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
  readonly log: Logger;
  readonly isJoinToken: (token: string) => boolean;
  readonly authority: LazyAuthority;
  /** Checks and answers join requests. */
  readonly joins: Joins;
  /** Commands that run on robots. The bridge passes the robots' reports to them. */
  readonly execs: Pick<ExecSessions, "receive" | "robotLost">;
  /** Certificate of the bridge at an external broker. */
  readonly tls?: MqttConnectionOptions["tls"];
  /** Whether robots are bound to their credential: the broker must check it. Default false. */
  readonly bindsCredentials?: boolean;
  readonly events: EventRecorder;
  /** Called on every connect to the broker. */
  readonly onConnected?: () => void;
}
