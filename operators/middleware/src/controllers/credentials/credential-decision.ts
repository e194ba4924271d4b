import { createHash } from "node:crypto";
import { jsonEquals } from "@keelson/api-machinery";
import type { CredentialState, UserState } from "./credential-state.ts";

/** A password in a Secret. */
export interface StoredPassword {
  readonly password: string;
  readonly nextPassword?: string;
}

/** Inputs of a decision about the users of an App. */
export interface CredentialObservation {
  readonly state: CredentialState | undefined;
  /** Wanted users with their rules, `default` included. */
  readonly users: ReadonlyMap<string, readonly string[]>;
  /** Passwords by user. Users whose Secret is missing are missing. */
  readonly secrets: ReadonlyMap<string, StoredPassword>;
  /** Sequences that the Pods report. Undefined: the Pod does not answer, or its program has no users. */
  readonly pods: readonly (number | undefined)[];
  readonly graceMs: number;
  readonly now: number;
}

/** The next step. */
export type CredentialStep =
  /** Records a state. Pods get it afterwards. */
  | { readonly kind: "record"; readonly state: CredentialState }
  /** Makes the next password of a user the current one of its Secret: all Pods accept it. */
  | { readonly kind: "publish"; readonly user: string }
  /** Sends the recorded state to Pods with an older one. */
  | { readonly kind: "send" }
  /** Nothing to do until a Secret, a Pod or the App changes, or this time. */
  | { readonly kind: "wait"; readonly untilMs?: number };

/** More than that many rotations within a grace period end the oldest password early. */
const maxPrevious = 5;

const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");

/**
 * Decides about the users of an App. Pure. A new password is accepted by all Pods before it is published, and the one before it until
 * its grace period has ended and all Pods have the new one, so that clients and Pods with either can log in at any time.
 */
export function decideCredentials(observed: CredentialObservation): CredentialStep {
  const { state, pods } = observed;
  const users = wantedUsers(observed);
  if (state === undefined || !jsonEquals(state.users, users))
    return { kind: "record", state: { sequence: (state?.sequence ?? 0) + 1, applied: state?.applied ?? 0, users } };
  const isApplied = pods.every((sequence) => sequence !== undefined && sequence >= state.sequence);
  if (isApplied && state.applied !== state.sequence)
    return { kind: "record", state: { sequence: state.sequence, applied: state.sequence, users } };
  if (!isApplied) return { kind: "send" };
  const [rotating] = Object.entries(users).find(([, user]) => user.next !== undefined) ?? [];
  if (rotating !== undefined) return { kind: "publish", user: rotating };
  const ends = Object.values(users).flatMap(({ previous }) => previous.map(({ untilMs }) => untilMs));
  return { kind: "wait", ...(ends.length === 0 ? {} : { untilMs: Math.min(...ends) }) };
}

/** The users by the Secrets and the grace periods. A user whose Secret is missing keeps its passwords. */
function wantedUsers({ state, users, secrets, graceMs, now }: CredentialObservation): Readonly<Record<string, UserState>> {
  // Until all Pods have the last change, one of them may have only an earlier password, and needs it to fence its primary.
  const isApplied = state === undefined || state.applied === state.sequence;
  return Object.fromEntries(
    [...users].flatMap(([name, rules]): readonly (readonly [string, UserState])[] => {
      const before = state?.users[name];
      const secret = secrets.get(name);
      if (secret === undefined) return before === undefined ? [] : [[name, { ...before, rules }]];
      const current = hashOf(secret.password);
      const next = secret.nextPassword === undefined ? undefined : hashOf(secret.nextPassword);
      const isChanged = before !== undefined && before.current !== current;
      const ended = isChanged ? [{ hash: before.current, untilMs: now + graceMs }] : [];
      const earlier = (before?.previous ?? []).filter(({ untilMs }) => !isApplied || untilMs > now);
      const previous = [...ended, ...earlier].filter(({ hash }) => hash !== current);
      return [
        [
          name,
          {
            rules,
            current,
            ...(next === undefined || next === current ? {} : { next }),
            previous: isApplied ? previous.slice(0, maxPrevious) : previous,
          },
        ],
      ];
    }),
  );
}
