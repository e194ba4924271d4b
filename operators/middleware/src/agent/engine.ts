/** How a program is handed its role. Epochs grow with every primary; lower ones than the last are refused. */
export interface Assignment {
  readonly role: "primary" | "replica";
  readonly primaryHost: string;
  readonly epoch: number;
}

/** What a program is at the moment. */
export interface EngineRole {
  readonly role: "primary" | "replica" | "unassigned" | "stopped" | "unknown";
  readonly info: Readonly<Record<string, string>>;
}

/** An answer that names what is wrong. */
export type Outcome = { readonly ok: true } | { readonly ok: false; readonly error: string };

/** What came of new parameters. */
export type ReloadOutcome = Outcome | { readonly ok: "restart"; readonly parameters: readonly string[] };

/**
 * A kind of middleware as its agent drives it. Everything may be asked for twice: what already holds is answered as done.
 * Methods reject where the program does not answer, so that nobody knows whether it was done.
 */
export interface Engine {
  /** Starts the program. Rejects where it does not get to answer. */
  start(): Promise<void>;
  role(): Promise<EngineRole>;
  assign(assignment: Assignment): Promise<Outcome>;
  reload(parameters: Readonly<Record<string, string>>, hash: string): Promise<ReloadOutcome>;
  /** Hands the primary's role to another one, with no acknowledged write lost, or refuses. */
  failover(order: {
    readonly target: string;
    readonly others: readonly string[];
    readonly epoch: number;
    readonly timeoutMs: number;
  }): Promise<Outcome>;
  stop(options: { readonly timeoutMs: number; readonly force: boolean }): Promise<Outcome>;
  /** Settles with a message when the program ends by itself. */
  readonly ended: Promise<string>;
}
