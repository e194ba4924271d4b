import type { UserState } from "./credential-state.ts";

/** A password in a Secret. */
export interface StoredPassword {
  readonly password: string;
  readonly nextPassword?: string;
  /** Login that the Secret names. */
  readonly login?: string;
  /** Whether the Secret is the user's own, from `passwordSecret`. Others may use it too. */
  readonly isProvided?: boolean;
  /** Whether the Secret cannot be written. */
  readonly isImmutable?: boolean;
}

/** What the Secret of a user lacks: its next password if there is one, and the login of that password. */
export interface Publication {
  readonly user: string;
  readonly login?: string;
}

/** The Secrets that lack something, and why others of them must not be written, by user. */
export interface Publications {
  readonly ready: readonly Publication[];
  readonly refused: Readonly<Record<string, string>>;
}

/** Finds users whose Secrets lack their next passwords, or name other logins. Pure. */
export function publications(
  {
    secrets,
    defaultLogin,
  }: { readonly secrets: ReadonlyMap<string, StoredPassword>; readonly defaultLogin?: string | undefined },
  users: Readonly<Record<string, UserState>>,
): Publications {
  const ready: Publication[] = [];
  const refused: Record<string, string> = {};
  for (const [user, { current, next, logins }] of Object.entries(users)) {
    const secret = secrets.get(user);
    const login = logins?.[next ?? current]?.name;
    const first = user === "default" ? (defaultLogin ?? user) : user;
    // Clients take the name of the user if an immutable Secret names no login.
    const named = secret?.login ?? (secret?.isImmutable === true ? first : undefined);
    if (secret === undefined || (next === undefined && (login === undefined || named === login))) continue;
    const problem = refusalOf(secret, login === undefined ? undefined : [first, `${first}_b`]);
    if (problem === undefined) ready.push({ user, ...(login === undefined ? {} : { login }) });
    else refused[user] = problem;
  }
  return { ready, refused };
}

/** Why a Secret must not be written. One that names the login of another user would be written by the controller of that user too, endlessly. */
function refusalOf(
  { login, isProvided, isImmutable }: StoredPassword,
  logins: readonly string[] | undefined,
): string | undefined {
  if (isImmutable === true) return "its Secret is immutable: create the Secret again without immutable";
  if (isProvided !== true || logins === undefined || login === undefined || logins.includes(login)) return undefined;
  return `username ${JSON.stringify(login)} of its Secret must be ${logins.join(" or ")}, or missing: use its own Secret`;
}
