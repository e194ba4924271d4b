import { createHash } from "node:crypto";
import { jsonEquals } from "@keelson/api-machinery";
import { type CredentialState, hasState, isSameId, type ReportedCredentials, type UserState } from "./credential-state.ts";

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
  /** What the Pods report. Undefined: the Pod does not answer, or its program has no users. */
  readonly pods: readonly (ReportedCredentials | undefined)[];
  /** Random id of a state that does not continue the recorded one. */
  readonly newId: string;
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
  const [rotating] = Object.entries(users).find(([, user]) => user.next !== undefined) ?? [];
  if (rotating !== undefined) return { kind: "publish", user: rotating };
  const ends = Object.values(users).flatMap(({ previous }) => previous.map(({ untilMs }) => untilMs));
  return { kind: "wait", ...(ends.length === 0 ? {} : { untilMs: Math.min(...ends) }) };
}

/** A state without its problem, which a change may have solved. */
function recorded(state: CredentialState): CredentialState {
  const { problem: _, ...rest } = state;
  return rest;
}

/** The users by the Secrets and the grace periods. A user whose Secret is missing keeps its passwords. */
function wantedUsers(
  { state, users, secrets, graceMs, now }: CredentialObservation,
  isApplied: boolean,
): Readonly<Record<string, UserState>> {
  // Until all Pods have the last change, one of them may have only an earlier password, and needs it to fence its primary.
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
