import type { PasswordLogin, UserState } from "./credential-state.ts";

/** A password with its SHA-256. */
export interface HashedPassword {
  readonly hash: string;
  readonly password: string;
}

/** What the logins of a user are chosen from. */
export interface LoginChoice {
  /** Name of the first login. The second one is `<first>_b`. */
  readonly first: string;
  readonly before: UserState | undefined;
  /** Login that the Secret names. */
  readonly published: string | undefined;
  readonly current: HashedPassword;
  readonly next: HashedPassword | undefined;
  /** Previous passwords, newest first. */
  readonly previous: UserState["previous"];
  readonly createVerifier: (password: string) => string;
}

type Chosen = Pick<UserState, "previous" | "logins"> & Pick<Partial<UserState>, "next">;

/**
 * Assigns passwords to the two logins of a user: a new password gets the login that the current one does not have. So a rotation waits until
 * the previous password, which has that login, has ended. Pure.
 */
export function alternateLogins(choice: LoginChoice): Chosen {
  const { first, before, published, current, next, createVerifier } = choice;
  const names = [first, `${first}_b`] as const;
  const otherThan = (name: string): string => (name === names[0] ? names[1] : names[0]);
  const known = before?.logins ?? {};
  const loginOf = ({ hash, password }: HashedPassword, name: string): PasswordLogin => {
    return { name, verifier: known[hash]?.verifier ?? createVerifier(password) };
  };
  const last = before === undefined ? undefined : known[before.current]?.name;
  const fresh = last === undefined ? (names.find((name) => name === published) ?? first) : otherThan(last);
  // A password that a user has changed in the Secret gets the other login too.
  const own = loginOf(current, known[current.hash]?.name ?? fresh);
  const other = otherThan(own.name);
  const previous = choice.previous.find(({ hash }) => known[hash]?.name === other);
  if (next !== undefined && (previous === undefined || previous.hash === next.hash))
    return { next: next.hash, previous: [], logins: { [current.hash]: own, [next.hash]: loginOf(next, other) } };
  const kept = previous && known[previous.hash];
  if (previous === undefined || kept === undefined) return { previous: [], logins: { [current.hash]: own } };
  return { previous: [previous], logins: { [current.hash]: own, [previous.hash]: kept } };
}
