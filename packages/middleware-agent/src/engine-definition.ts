import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { FlagDefinition, Operator } from "@keelson/operator";
import type { MiddlewareEngine } from "./engine.ts";
import type { ProgramTls } from "./tls/tls-mode.ts";

/** Options of an engine, from the flags and the environment of its agent. */
export interface EngineOptions {
  /** Executable of the program: a name in `PATH`, or a path. */
  readonly program: string;
  /** Address of the Pod. The program must listen only there, and only once it has a role. */
  readonly host: string;
  /** Port of the program, the same in all Pods of a Group. */
  readonly port: number;
  /** Name of the Pod. */
  readonly podName: string;
  /** Password of the program, the same in all Pods of an App. */
  readonly password: string;
  /** File with the parameters; see `readParameters`. */
  readonly configFile: string;
  /** Mount path of the volume. */
  readonly dataDir: string;
  /** Id of a request to discard the data; see `discardData`. */
  readonly rebuild?: string;
  /** TLS of the program. Undefined: it must not use TLS. */
  readonly tls?: ProgramTls;
  /** Values of {@link EngineDefinition.flags}. */
  readonly flags: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What an agent knows about its Group. */
export interface AgentView {
  /** Address of the primary; the last known one if there is none currently. */
  primaryHost(): Promise<string | undefined>;
  /** Addresses of the Pods that vote, by Pod name. Empty without a quorum. */
  members(): Readonly<Record<string, string>>;
  /** Whether a Pod has the lease of a majority. */
  hasQuorum(): boolean;
}

/** A further server of an agent. */
export interface EngineService {
  stop(): Promise<void>;
}

/** A kind of program that an agent can drive. */
export interface EngineDefinition {
  /** Value of `--engine`. */
  readonly name: string;
  /** Default executable. */
  readonly program: string;
  /** Default port. */
  readonly port: number;
  /** Flags of the agent that only this engine has. Their names must differ from those of the agent. */
  readonly flags?: readonly FlagDefinition[];
  /** Creates an engine. It does nothing before `start`. */
  create(options: EngineOptions): MiddlewareEngine;
  /** Starts a further server, such as one with which clients discover the primary. It stops before the program. */
  serve?(options: EngineOptions, view: AgentView, engine: MiddlewareEngine): Promise<EngineService>;
}

/** A plugin that the operator installs: the ConfigMap that describes it, and the engines of its agents. */
export interface PluginDefinition {
  readonly name: string;
  readonly version: string;
  /** Data of the ConfigMap: `plugin.yaml` and the templates. */
  readonly data: Readonly<Record<string, string>>;
  readonly engines: readonly EngineDefinition[];
  /** Panels and alert rules for the metrics of the program. */
  readonly monitoring?: Pick<NonNullable<Operator["monitoring"]>, "panels" | "alerts">;
}
