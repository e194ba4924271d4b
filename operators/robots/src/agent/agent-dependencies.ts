import type { Driver } from "@keelson/execution";
import type { ConnectMqtt } from "./agent-connection.ts";

/** Dependencies of an agent that its command does not set. */
export interface AgentDependencies {
  /** Runs the programs; the agent closes it. Default: a process driver in `<workDir>/.agent/programs`. */
  readonly driver?: Driver;
  /** Default: mqtt.js's `connect`. */
  readonly connect?: ConnectMqtt;
  /** Generates a credential. Default: 32 random bytes. */
  readonly randomSecret?: () => string;
  /** Identifies this start of the agent. Default: a random UUID. */
  readonly instanceId?: string;
  /** The boot clock in milliseconds. Default: `/proc/uptime`. */
  readonly bootMs?: () => number;
  /** Returns a number in [0, 1). Default: `Math.random`. */
  readonly random?: () => number;
}
