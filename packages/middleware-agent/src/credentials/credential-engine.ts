import type { Outcome } from "../engine.ts";

/** A user of a program. */
export interface ProgramUser {
  /** `default` is the user of clients that send a password only. */
  readonly name: string;
  /** Rules in the syntax of the program. Empty for the default user: all permissions. */
  readonly rules: readonly string[];
  /** SHA-256 of the accepted passwords in hexadecimal: one, or two during a rotation. */
  readonly passwordHashes: readonly string[];
  /** Logins of the user: one, or two during a rotation. Only if the plugin has `users.defaultLogin`. */
  readonly logins?: readonly ProgramLogin[];
}

/** A login of a user, for programs with one password per login. */
export interface ProgramLogin {
  /** The first login of a user has its name; that of the default user is `users.defaultLogin` of the plugin. */
  readonly name: string;
  /** SCRAM-SHA-256 verifier of its password, as PostgreSQL stores it. */
  readonly verifier: string;
}

/** The users of a program, and the password of its agents. */
export interface Credentials {
  /** Grows with every change of the same `id`. */
  readonly sequence: number;
  /** Identifies what the sequence counts, such as one life of an App. Missing: from a controller of an earlier release. */
  readonly id?: string;
  /** Password with which a server authenticates at others, one of those of the default user. */
  readonly password: string;
  /** Login of the password, for programs with one password per login. */
  readonly login?: string;
  readonly users: readonly ProgramUser[];
}

/** Sets users and passwords at runtime. */
export interface CredentialEngine {
  /**
   * Creates and changes all users, and deletes those of the last request that are missing. Persists them, so that a restarted program
   * accepts the same passwords. Refuses an older sequence of the same id, and rules that the program rejects. Connections stay open.
   */
  set(credentials: Credentials): Promise<Outcome>;
  /** Whether a password of a user is accepted, for further servers of the agent. */
  accepts(user: string, password: string): boolean;
}
