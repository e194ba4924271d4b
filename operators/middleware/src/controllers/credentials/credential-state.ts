import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";

/** A user in {@link CredentialState}. Passwords are SHA-256 hashes in hexadecimal. */
export interface UserState {
  readonly rules: readonly string[];
  /** Of the password in the Secret. */
  readonly current: string;
  /** Of a password that is published once all Pods accept it. */
  readonly next?: string;
  /** Of earlier passwords, until their grace period ends. */
  readonly previous: readonly { readonly hash: string; readonly untilMs: number }[];
  /** The login of each password, by hash, for programs with one password per login. */
  readonly logins?: Readonly<Record<string, PasswordLogin>>;
}

/** A login of a user, whose only password this is. */
export interface PasswordLogin {
  readonly name: string;
  /** SCRAM-SHA-256 verifier. */
  readonly verifier: string;
}

/** The users of an App and the passwords that its programs accept, recorded in the access Secret before Pods get them. */
export interface CredentialState {
  /** Random, so that sequences of an earlier App or of a restored Secret are not mistaken for those of this state. Missing: recorded by an earlier release. */
  readonly id?: string;
  /** Grows with every change of the users. */
  readonly sequence: number;
  /** The last sequence that all Pods have. */
  readonly applied: number;
  /** By name. Contains `default`. */
  readonly users: Readonly<Record<string, UserState>>;
  /** Why the programs or the Secrets do not allow the last change. */
  readonly problem?: string;
  /** Why Secrets do not get what clients should use, by user. */
  readonly unpublished?: Readonly<Record<string, string>>;
}

/** What an agent reports about the credentials of its Pod. */
export interface ReportedCredentials {
  readonly sequence: number;
  /** Undefined: an agent of an earlier release. Empty: it has no credentials with an id. */
  readonly id?: string;
}

/** Whether the sequences of a Pod and a state can be compared. */
export function isSameId({ id }: CredentialState, reported: ReportedCredentials): boolean {
  return reported.id === undefined || reported.id === id;
}

/** Whether a Pod has a state. */
export function hasState(reported: ReportedCredentials | undefined, state: CredentialState): boolean {
  return reported !== undefined && isSameId(state, reported) && reported.sequence >= state.sequence;
}

/** Parses a recorded state. Undefined if there is none, or none that this controller wrote. */
export function parseCredentialState(text: string | undefined): CredentialState | undefined {
  const state = text === undefined ? undefined : parseJsonObject(text);
  if (state === undefined || typeof state["sequence"] !== "number" || !isJsonObject(state["users"])) return undefined;
  return state as unknown as CredentialState;
}

/** The logins that a user may use. Undefined if the program has several passwords per login. */
export function acceptedLogins(user: UserState): readonly PasswordLogin[] | undefined {
  const { logins } = user;
  return logins && acceptedHashes(user).flatMap((hash) => logins[hash] ?? []);
}

/** The hashes of the passwords that a user may log in with. */
export function acceptedHashes({ current, next, previous }: UserState): readonly string[] {
  return [...new Set([current, ...(next === undefined ? [] : [next]), ...previous.map(({ hash }) => hash)])];
}
