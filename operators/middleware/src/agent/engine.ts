/** A role for a program. Epochs grow with every primary; assignments with an older epoch are refused. */
export interface Assignment {
  readonly role: "primary" | "replica";
  readonly primaryHost: string;
  readonly epoch: number;
}

/** The current role of a program. */
export interface EngineRole {
  readonly role: "primary" | "replica" | "unassigned" | "stopped" | "unknown";
  readonly info: Readonly<Record<string, string>>;
}

/** Result of a request to a program. */
export type Outcome = { readonly ok: true } | { readonly ok: false; readonly error: string };

/** Result of a change of parameters. */
export type ReloadOutcome = Outcome | { readonly ok: "restart"; readonly parameters: readonly string[] };

/** A planned switchover to the server at `target`. `others` are the remaining replicas. */
export interface FailoverOrder {
  readonly target: string;
  readonly others: readonly string[];
  readonly epoch: number;
  readonly timeoutMs: number;
}

/** How to stop a program. */
export interface StopOptions {
  readonly timeoutMs: number;
  /** Kills the program after the timeout. */
  readonly force: boolean;
}

/**
 * Drives one kind of middleware. All methods are idempotent. They reject if the program does not answer, so that the outcome is
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
