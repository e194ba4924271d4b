import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { RobotPolicy } from "../agent/policy/robot-policy.ts";

/** Options of an agent. */
export interface AgentOptions {
  /** `tcp://host:port`, also `mqtt://`, `mqtts://` and `ssl://`. */
  readonly brokerUrl: string;
  readonly robotId: string;
  /** A one-time or the shared join token. Undefined: the robot has joined already. */
  readonly token: string | undefined;
  /** Where the agent joins and renews its certificate. Default: {@link brokerUrl}. */
  readonly joinUrl?: string;
  readonly heartbeatIntervalMs: number;
  readonly workDir: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly log: Logger;
  /** What the robot's owner allows. Default: the agent's drivers, and artifacts with a digest from any web server. */
  readonly policy?: RobotPolicy;
  /** Stops running tasks when the agent stops. Otherwise they keep running and the next agent adopts them. */
  readonly stopTasksOnExit: boolean;
}

/** A running agent. */
export interface RunningAgent {
  stop(): Promise<void>;
  /** Resolves when it has stopped; rejects if it failed. */
  readonly done: Promise<void>;
}

/** Starts a robot's agent. */
export type StartAgent = (options: AgentOptions) => Promise<RunningAgent> | RunningAgent;
