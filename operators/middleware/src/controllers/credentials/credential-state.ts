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
}

/** The users of an App and the passwords that its programs accept, recorded in the access Secret before Pods get them. */
export interface CredentialState {
  /** Grows with every change of the users. */
  readonly sequence: number;
  /** The last sequence that all Pods have. */
  readonly applied: number;
  /** By name. Contains `default`. */
  readonly users: Readonly<Record<string, UserState>>;
  /** Why the programs or the Secrets do not allow the last change. */
  readonly problem?: string;
}

/** Parses a recorded state. Undefined if there is none, or none that this controller wrote. */
export function parseCredentialState(text: string | undefined): CredentialState | undefined {
  const state = text === undefined ? undefined : parseJsonObject(text);
  if (state === undefined || typeof state["sequence"] !== "number" || !isJsonObject(state["users"])) return undefined;
  return state as unknown as CredentialState;
}

/** The hashes of the passwords that a user may log in with. */
export function acceptedHashes({ current, next, previous }: UserState): readonly string[] {
  return [...new Set([current, ...(next === undefined ? [] : [next]), ...previous.map(({ hash }) => hash)])];
}
