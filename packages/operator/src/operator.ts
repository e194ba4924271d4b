import type { KubernetesObject, ResourceDefinition } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, ControllerDefinition, Logger, OnChange, Read } from "@keelson/controller";
import type { KindWebhooks } from "@keelson/controller/webhooks";
import type { CollectMetrics } from "@keelson/controller/metrics";
import type { OperatorDeployment } from "./deployment.ts";
import type { FlagDefinition, FlagValues } from "./flags.ts";
import type { OperatorMonitoring } from "./monitoring/operator-monitoring.ts";
import type { OperatorServices } from "./operator-services.ts";

/** What a command runs with. */
export interface CommandContext {
  readonly args: readonly string[];
  readonly flags: FlagValues;
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  readonly clock: Clock;
  readonly log: Logger;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** The client for `--kubeconfig` and `--context`, created on the first call. */
  client(): Promise<Client>;
}

/** A command of `keelson <operator> <name>`. */
export interface CommandDefinition {
  readonly name: string;
  readonly description: string;
  /** Positional arguments: `NAME` if required, `[NAME]` if optional. */
  readonly args?: readonly string[];
  readonly flags?: readonly FlagDefinition[];
  /** Whether the command has `--kubeconfig` and `--context`, for {@link CommandContext.client}. Default true. */
  readonly usesCluster?: boolean;
  /** Whether the command is run by Pods only and hidden from `--help`. Default false. */
  readonly isInternal?: boolean;
  /** Resolves to the exit status. */
  run(context: CommandContext): Promise<number>;
}

/** What the controllers and servers of one running operator share. */
export interface OperatorContext {
  /** State that they share with one another. */
  readonly services: OperatorServices;
  /** The operator's own directory, which survives restarts. */
  readonly dataDir: string;
  /** Values of the operator's and its servers' flags. */
  readonly flags: FlagValues;
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly log: Logger;
  /** Exports metrics at the operator's `/metrics`, read on each scrape. Returns a function that stops the export. */
  collectMetrics(read: CollectMetrics): () => void;
}

/** What a server of an operator runs with. */
export interface ServerContext extends OperatorContext {
  /** A client with the operator's own permissions. */
  readonly client: Client;
  /** The informers' stores; kinds of the server's `reads` are synced. */
  readonly cache: Cache;
  /** Calls `listener` on every change of a kind among `reads`, after the store has it. Returns the way to stop. */
  onChange: OnChange;
}

/** A running server. */
export interface RunningServer {
  /** One line for users: what listens where. */
  readonly description: string;
  /** Addresses by name, for programs: `{ mqtt: "tcp://127.0.0.1:1883" }`. */
  readonly endpoints?: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** A socket on which a part of Keelson listens, for the table in SECURITY.md. */
export interface ListenerDescription {
  readonly name: string;
  /** The default address, and the flag that changes it. */
  readonly address: string;
  /** How clients authenticate. */
  readonly authentication: string;
  /** What authenticated clients may do. */
  readonly permissions: string;
}

/** A server that runs in addition to the controllers, such as a bridge. */
export interface ServerDefinition {
  readonly name: string;
  readonly flags?: readonly FlagDefinition[];
  readonly reads?: readonly Read<KubernetesObject>[];
  /** Whether to start it on the leader only, before the controllers. Default false: on every replica, when the caches are synced. */
  readonly needsLeaderElection?: boolean;
  start(context: ServerContext): Promise<RunningServer>;
}

/**
 * An operator as data: the command line, `keelson up`, the chart and the docs are generated from it. A new operator is a directory that
 * exports one of these, and one line in `apps/cli`.
 */
export interface Operator {
  /** The name in `keelson <name> ...` and `--only <name>`. */
  readonly name: string;
  /** Alias of its group of commands: `keelson <commandName> ...`. */
  readonly commandName?: string;
  /** One line that says what it does. */
  readonly description: string;
  readonly resources: readonly ResourceDefinition[];
  /** RBAC rules of its controllers and servers. `clusterRulesOf` adds those of the runtime; nothing else is granted. */
  readonly rules: readonly PolicyRule[];
  /**
   * Permissions that Kubernetes' roles `view`, `edit` and `admin` have in addition to those on the resources themselves, such as on
   * subresources that only the operator's servers know. Each role also has those of the roles before it.
   */
  readonly userRules?: { readonly view?: readonly PolicyRule[]; readonly edit?: readonly PolicyRule[] };
  /**
   * Additional rules that `keelson up` grants locally, where the user who starts it has all permissions anyway. In a cluster, an
   * administrator has to grant them.
   */
  readonly localRules?: readonly PolicyRule[];
  /** Flags of its controllers. Servers declare their own. Default: none. */
  readonly flags?: readonly FlagDefinition[];
  /** Creates the controllers of one running operator. Called once at each start. */
  readonly controllers: (context: OperatorContext) => readonly ControllerDefinition[];
  readonly servers: readonly ServerDefinition[];
  /** Admission webhooks, served by every replica. Default: none. */
  readonly webhooks?: readonly KindWebhooks[];
  readonly commands: readonly CommandDefinition[];
  /** Everything that listens: servers, and programs of Pods. Default: nothing. */
  readonly listeners?: readonly ListenerDescription[];
  /** Its own metrics, panels and alert rules. Default: those of every operator. */
  readonly monitoring?: OperatorMonitoring;
  /** How it runs in a cluster. Default: as a Deployment without ports. */
  readonly deployment?: OperatorDeployment;
}
