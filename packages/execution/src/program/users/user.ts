import { pathInRoot } from "../../files/root-path.ts";
import { readAccountFile } from "./account-file.ts";
import { type AccountFields, accountNamed, accountWithId } from "./account-entries.ts";

/** The numeric ids of a user. */
export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

/** The resolved ids of a `user` field, or why it could not be resolved. */
export type ResolvedUser = UserIds | { readonly problem: string };

const maxId = 2 ** 32 - 2;

/**
 * Resolves `name`, `uid` or `uid:gid` with the text of a passwd file (passwd(5)). A bare uid gets the group of its entry, or the group of
 * the same number if it has none. `where` completes the error message.
 */
export const resolveUser = (user: string, passwd: string, where = "on this machine"): ResolvedUser =>
  resolveAccount(user, accountOf(user, passwd), where);

const numericUser = /^(\d{1,10})(?::(\d{1,10}))?$/;

/** The entry of a user in the text of a passwd file. */
export function accountOf(user: string, passwd: string): AccountFields | undefined {
  const numeric = numericUser.exec(user);
  return numeric === null ? accountNamed(passwd, user) : accountWithId(passwd, Number(numeric[1]));
}

/** {@link resolveUser} with the {@link accountOf} the user. */
export function resolveAccount(user: string, entry: AccountFields | undefined, where: string): ResolvedUser {
  const numeric = numericUser.exec(user);
  if (numeric !== null) {
    const uid = Number(numeric[1]);
    const gid = Number(numeric[2] ?? entry?.[3] ?? uid);
    return uid > maxId || gid > maxId ? { problem: `user ${user}: ids must not exceed ${maxId}` } : { uid, gid };
  }
  const uid = Number(entry?.[2]);
  const gid = Number(entry?.[3]);
  return entry === undefined || !Number.isInteger(uid + gid) ? { problem: `user ${user} not found ${where}` } : { uid, gid };
}

/** The home directory of a user in the text of a passwd file; `/` if it has no entry. */
export function homeIn(passwd: string, uid: number): string {
  return accountWithId(passwd, uid)?.[5] || "/";
}

/** Reads the passwd file below `root`; empty if there is none, so that only numeric users resolve. */
export const readPasswd = (root = "/"): string => readAccountFile(pathInRoot(root, "/etc/passwd"));

/** {@link resolveUser} with this machine's `/etc/passwd`; a problem if this process may not become that user. */
export function resolveLocalUser(user: string): ResolvedUser {
  const resolved = resolveUser(user, readPasswd());
  if ("problem" in resolved || process.getuid?.() === 0) return resolved;
  if (resolved.uid === process.getuid?.() && resolved.gid === process.getgid?.()) return resolved;
  return { problem: `running as user ${user} requires root` };
}
