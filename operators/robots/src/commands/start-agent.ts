import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";

/** What an agent runs with. */
export interface AgentOptions {
  /** `tcp://host:port`, also `mqtt://`, `mqtts://` and `ssl://`. */
  readonly brokerUrl: string;
  readonly robotId: string;
  readonly token: string;
  readonly heartbeatIntervalMs: number;
  readonly workDir: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Ends tasks that run when the agent stops. Otherwise they go on, and the next agent finds them. */
  readonly stopTasksOnExit: boolean;
}

/** A running agent. */
export interface RunningAgent {
  stop(): Promise<void>;
  /** Settles when it has stopped; rejects when it failed. */
  readonly done: Promise<void>;
}

/** Starts a robot's agent. */
export type StartAgent = (options: AgentOptions) => Promise<RunningAgent> | RunningAgent;
