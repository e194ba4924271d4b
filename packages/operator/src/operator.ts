import type { KubernetesObject, ResourceDefinition } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, ControllerDefinition, Logger, OnChange, Read } from "@keelson/controller";
import type { FlagDefinition, FlagValues } from "./flags.ts";
import type { OperatorServices } from "./operator-services.ts";

/** What a command runs with. */
export interface CommandContext {
  readonly args: readonly string[];
  readonly flags: FlagValues;
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  readonly clock: Clock;
  readonly log: Logger;
  /** Fires on SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** A client from the flags that every command has (`--kubeconfig`, `--context`), made when first asked for. */
  client(): Promise<Client>;
}

/** A command of `keelson <operator> <name>`. */
export interface CommandDefinition {
  readonly name: string;
  readonly description: string;
  /** Positional arguments, `NAME` for required and `[NAME]` for optional ones. */
  readonly args?: readonly string[];
  readonly flags?: readonly FlagDefinition[];
  /** Whether it has `--kubeconfig` and `--context`, for {@link CommandContext.client}. Default true. */
  readonly usesCluster?: boolean;
  /** Whether it is run by Pods and not by people, so that `--help` of its family leaves it out. Default false. */
  readonly isInternal?: boolean;
  /** Answers the exit status. */
  run(context: CommandContext): Promise<number>;
}

/** What the controllers and servers of one running operator share. */
export interface OperatorContext {
  /** State that they share with one another. */
  readonly services: OperatorServices;
  /** The operator's own folder, which survives restarts. */
  readonly dataDir: string;
  /** Values of the servers' flags. */
  readonly flags: FlagValues;
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly log: Logger;
}

/** What a server of an operator runs with. */
export interface ServerContext extends OperatorContext {
  /** A client with the operator's own rights. */
  readonly client: Client;
  /** The informers' stores; kinds of the server's `reads` are synced. */
  readonly cache: Cache;
  /** Calls `listener` on every change of a kind among `reads`, after the store has it. Returns the way to stop. */
  onChange: OnChange;
}

/** A running server. */
export interface RunningServer {
  /** One line for people: what listens where. */
  readonly description: string;
  /** Addresses by name, for programs: `{ mqtt: "tcp://127.0.0.1:1883" }`. */
  readonly endpoints?: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** A server beside the controllers: a bridge, a fast path. */
export interface ServerDefinition {
  readonly name: string;
  readonly flags?: readonly FlagDefinition[];
  readonly reads?: readonly Read<KubernetesObject>[];
  /** Started after the caches are synced and before the controllers. Default: on every replica, not only the leader. */
  readonly needsLeaderElection?: boolean;
  start(context: ServerContext): Promise<RunningServer>;
}

/**
 * A family: everything that the command line, `keelson up`, the chart and the docs need to know of it. Adding a sixth
 * family is adding a folder that exports one of these, and one line in `apps/cli`.
 */
export interface Operator {
  /** The name in `keelson <name> ...` and `--only <name>`. */
  readonly name: string;
  /** A second name of its group of commands: `keelson <commandName> ...`. */
  readonly commandName?: string;
  /** One line: what it is for. */
  readonly description: string;
  readonly resources: readonly ResourceDefinition[];
  /** The rights of its controllers and servers. `clusterRulesOf` adds what the runtime needs; nothing else is granted. */
  readonly rules: readonly PolicyRule[];
  /**
   * Further rights that `keelson up` grants on its own machine, where whoever starts it may do everything anyway. In a cluster
   * they are the administrator's to give.
   */
  readonly localRules?: readonly PolicyRule[];
  /** Creates the controllers of one running operator. Called once at each start. */
  readonly controllers: (context: OperatorContext) => readonly ControllerDefinition[];
  readonly servers: readonly ServerDefinition[];
  readonly commands: readonly CommandDefinition[];
}
