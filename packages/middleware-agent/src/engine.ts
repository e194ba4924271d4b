import type { CredentialEngine } from "./credentials/credential-engine.ts";
import type { LogEngine } from "./log/log-engine.ts";
import type { ProgramMetric } from "./metrics/program-metric.ts";
import type { SnapshotEngine } from "./snapshot/snapshot-engine.ts";
import type { UpgradeEngine } from "./upgrade/upgrade-engine.ts";

/** A role for a program. Epochs grow with every primary; assignments with an older epoch are refused. */
export interface Assignment {
  readonly role: "primary" | "replica";
  readonly primaryHost: string;
  readonly epoch: number;
}

/** The current role of a program. */
export interface EngineRole {
  /** `unassigned`: it never had a role. `recovering`: it was restarted, and its role must be assigned again. */
  readonly role: "primary" | "replica" | "unassigned" | "recovering" | "stopped" | "unknown";
  readonly info: Readonly<Record<string, string>>;
}

/** Result of a request to a program. */
export type Outcome =
  | { readonly ok: true }
  /** `mustTerminate`: the primary does not respond and must be terminated before another server can take over. */
  | { readonly ok: false; readonly error: string; readonly mustTerminate?: boolean };

/** Result of a change of parameters. */
export type ReloadOutcome = Outcome | { readonly ok: "restart"; readonly parameters: readonly string[] };

/** A switchover to the server at `target`, which is this server for a takeover. `others` are the remaining replicas. */
export interface FailoverOrder {
  readonly target: string;
  readonly others: readonly string[];
  readonly epoch: number;
  readonly timeoutMs: number;
  /** Whether the previous primary has been terminated. */
  readonly isPrimaryDown?: boolean;
  /**
   * On a takeover: how many replicas the primary had, this one and those that do not respond included. An engine that knows how many of them
   * confirm a write refuses while an acknowledged write may be on the missing ones only. Undefined: take over with the available data.
   */
  readonly replicas?: number;
  /**
   * Called when the previous primary accepts no more writes and the next one has all its data. Resolves to the epoch of the next
   * primary, or to the reason why it must not be promoted. `promotesItself`: the agent of the next primary promotes it.
   */
  readonly beforePromotion?: () => Promise<
    | { readonly ok: true; readonly epoch: number; readonly promotesItself?: boolean }
    | { readonly ok: false; readonly error: string }
  >;
  /** Whether a primary whose switchover was refused may accept writes again. */
  readonly mayResume?: () => boolean;
}

/** How to stop a program. */
export interface StopOptions {
  readonly timeoutMs: number;
  /** Kills the program after the timeout. */
  readonly force: boolean;
  /** The Pod does not return: other servers need not keep anything for it. */
  readonly isRemoved?: boolean;
}

/**
 * Drives one kind of middleware. All methods are idempotent. They reject if the program does not respond, so that the outcome is
 * not known.
 */
export interface Engine {
  /** Starts the program. Rejects if it does not become available. */
  start(): Promise<void>;
  role(): Promise<EngineRole>;
  assign(assignment: Assignment): Promise<Outcome>;
  reload(parameters: Readonly<Record<string, string>>, hash: string): Promise<ReloadOutcome>;
  /** Hands the primary role to another server without losing acknowledged writes, or refuses. */
  failover(order: FailoverOrder): Promise<Outcome>;
  stop(options: StopOptions): Promise<Outcome>;
  /** Resolves with a message when the program exits by itself. */
  readonly ended: Promise<string>;
}

/** What a plugin implements for its program. */
export interface MiddlewareEngine extends FencedEngine {
  /** Snapshots for backups. Without them, Backups of the App fail with that reason. */
  readonly snapshots?: SnapshotEngine;
  /** The log for recovery to a point in time. Without it, BackupSchedules with `log` report that. */
  readonly log?: LogEngine;
  /** Users and the rotation of passwords. `role()` reports the sequence in force as `credentials`. Without it, an App has one password that is not rotated. */
  readonly credentials?: CredentialEngine;
  /** Upgrades of data for which all Pods are stopped. Without it, an upgrade in the plugin's `compatibility.stopFor` fails with that reason. */
  readonly upgrades?: UpgradeEngine;
  /**
   * Reads the metrics of the program, under the names of its usual exporter. Called once per scrape, in any role. A program that does
   * not answer is a value, such as `redis_up 0`. The caller adds `namespace`, `app`, `component`, `group` and `pod`. Without it, only
   * the operator's own metrics are exported.
   */
  metrics?(): Promise<readonly ProgramMetric[]>;
  /**
   * Makes the program use the current certificates of `EngineOptions.tls` for later connections, without a restart. Connections stay open.
   * It is repeated if it rejects. Without it, Apps of the plugin cannot use TLS.
   */
  reloadCertificates?(): Promise<void>;
}

/** An engine whose primary can be fenced, so that it can depend on a lease. */
export interface FencedEngine extends Engine {
  /** Makes the program reject all writes until a role is assigned or it is promoted. */
  fenceWrites(): Promise<void>;
  /** Whether the program rejects all writes. */
  isFenced(): Promise<boolean>;
  /**
   * Makes the program a primary that accepts writes. `elected`: by the agents of the other Pods, whose addresses these are. Rejects, and is
   * repeated, while an acknowledged write may be on Pods that do not respond.
   */
  promote(epoch: number, elected?: readonly string[]): Promise<void>;
  /** Whether no program is listening at the address of another Pod. False if that is not known. */
  isDown(host: string): Promise<boolean>;
  /** Kills the program after `timeoutMs` unless it is called again, even if the agent no longer runs. Undefined: never. */
  guard(timeoutMs: number | undefined): void;
}
