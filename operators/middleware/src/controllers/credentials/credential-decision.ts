import { createHash } from "node:crypto";
import { jsonEquals } from "@keelson/api-machinery";
import { alternateLogins } from "./alternating-logins.ts";
import { publications, type Publication, type StoredPassword } from "./publication.ts";
import { type CredentialState, hasState, isSameId, type ReportedCredentials, type UserState } from "./credential-state.ts";

/** Inputs of a decision about the users of an App. */
export interface CredentialObservation {
  readonly state: CredentialState | undefined;
  /** Wanted users with their rules, `default` included. */
  readonly users: ReadonlyMap<string, readonly string[]>;
  /** Passwords by user. Users whose Secret is missing are missing. */
  readonly secrets: ReadonlyMap<string, StoredPassword>;
  /** What the Pods report. Undefined: the Pod does not respond, or its program has no users. */
  readonly pods: readonly (ReportedCredentials | undefined)[];
  /** Random id of a state that does not continue the recorded one. */
  readonly newId: string;
  /** First login of the default user, for programs with one password per login. */
  readonly defaultLogin?: string | undefined;
  /** Returns a new verifier of a user's password that the state lacks. */
  readonly createVerifier: (password: string, user: string) => string;
  readonly graceMs: number;
  readonly now: number;
}

/** The next step. */
export type CredentialStep =
  /** Records a state. Pods get it afterwards. */
  | { readonly kind: "record"; readonly state: CredentialState }
  /** Makes the next passwords of users, where there are any, the current ones of their Secrets, with their logins: all Pods accept them. */
  | { readonly kind: "publish"; readonly users: readonly Publication[] }
  /** Sends the recorded state to Pods with an older one. */
  | { readonly kind: "send" }
  /** Nothing to do until a Secret, a Pod or the App changes, or this time. */
  | { readonly kind: "wait"; readonly untilMs?: number };

/** More than that many rotations within a grace period end the oldest password early. */
const maxPrevious = 5;

/** SHA-256 of a password in hexadecimal, by which states know it. */
export const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");

/**
 * Decides about the users of an App. Pure. A new password is accepted by all Pods before it is published, and the one before it until
 * its grace period has ended and all Pods have the new one, so that clients and Pods with either can log in at any time.
 */
export function decideCredentials(observed: CredentialObservation): CredentialStep {
  const { state, pods, newId } = observed;
  const counted = pods.flatMap((pod) =>
    pod !== undefined && (state === undefined || isSameId(state, pod)) ? [pod.sequence] : [],
  );
  const newest = Math.max(state?.sequence ?? 0, ...counted);
  // Pods have later changes than the state if its Secret was restored from an earlier copy.
  const isContinued = state?.id !== undefined && newest === state.sequence;
  const users = wantedUsers(observed, state === undefined || (isContinued && state.applied === state.sequence));
  if (!isContinued) return { kind: "record", state: { id: newId, sequence: newest + 1, applied: 0, users } };
  if (!jsonEquals(state.users, users)) return { kind: "record", state: { ...recorded(state), sequence: newest + 1, users } };
  const isApplied = pods.every((pod) => hasState(pod, state));
  if (isApplied && state.applied !== state.sequence)
    return { kind: "record", state: { ...recorded(state), applied: state.sequence } };
  if (!isApplied) return { kind: "send" };
  const { ready, refused } = publications(observed, users);
  if (!jsonEquals(state.unpublished ?? {}, refused)) {
    const { unpublished: _, ...rest } = state;
    return { kind: "record", state: { ...rest, ...(Object.keys(refused).length === 0 ? {} : { unpublished: refused }) } };
  }
  if (ready.length > 0) return { kind: "publish", users: ready };
  const ends = Object.values(users).flatMap(({ previous }) => previous.map(({ untilMs }) => untilMs));
  return { kind: "wait", ...(ends.length === 0 ? {} : { untilMs: Math.min(...ends) }) };
}

/** A state without its problem, which a change may have solved. */
function recorded(state: CredentialState): CredentialState {
  const { problem: _, ...rest } = state;
  return rest;
}

/** The users by the Secrets and the grace periods. A user whose Secret is missing keeps its passwords. */
function wantedUsers(observed: CredentialObservation, isApplied: boolean): Readonly<Record<string, UserState>> {
  const { state, users, secrets } = observed;
  return Object.fromEntries(
    [...users].flatMap(([name, rules]): readonly (readonly [string, UserState])[] => {
      const before = state?.users[name];
      const secret = secrets.get(name);
      if (secret === undefined) return before === undefined ? [] : [[name, { ...before, rules }]];
      return [[name, { rules, ...passwordsOf(name, secret, before, { ...observed, isApplied }) }]];
    }),
  );
}

/** The passwords of a user. Until all Pods have the last change, one of them may have only an earlier one, and needs it to fence its primary. */
function passwordsOf(
  user: string,
  secret: StoredPassword,
  before: UserState | undefined,
  { graceMs, now, isApplied, defaultLogin, createVerifier }: CredentialObservation & { readonly isApplied: boolean },
): Omit<UserState, "rules"> {
  const current = hashOf(secret.password);
  const wanted = secret.nextPassword === undefined ? undefined : hashOf(secret.nextPassword);
  const next = wanted === current ? undefined : wanted;
  const isChanged = before !== undefined && before.current !== current;
  const ended = isChanged ? [{ hash: before.current, untilMs: now + graceMs }] : [];
  const earlier = (before?.previous ?? []).filter(({ untilMs }) => !isApplied || untilMs > now);
  const previous = [...ended, ...earlier].filter(({ hash }) => hash !== current);
  if (defaultLogin === undefined) {
    const kept = isApplied ? previous.slice(0, maxPrevious) : previous;
    return { current, ...(next === undefined ? {} : { next }), previous: kept };
  }
  const chosen = alternateLogins({
    ...{ before, previous, published: secret.login },
    createVerifier: (password) => createVerifier(password, user),
    first: user === "default" ? defaultLogin : user,
    current: { hash: current, password: secret.password },
    next: next === undefined ? undefined : { hash: next, password: secret.nextPassword ?? "" },
  });
  return { current, ...chosen };
}
