import { ExecutionError } from "../../driver.ts";
import { accountNamed, accountWithId, entriesWith } from "./account-entries.ts";
import { readAccountFile } from "./account-file.ts";
import { homeIn, resolveUser, type UserIds } from "./user.ts";

/** The user of a command beside a program, with the ids that it has inside. */
export interface CommandUser extends UserIds {
  /** Supplementary groups. */
  readonly groups: readonly number[];
  readonly home: string;
}

/** The texts of a root's `/etc/passwd` and `/etc/group`. */
export interface Accounts {
  readonly passwd: string;
  readonly group: string;
}

/** As many as a user can have over NFS, and far less than fit in the map of a user namespace. */
const maxGroups = 64;

/** Reads accounts. `pathOf` returns where a file of the root's `/etc` is on this machine. */
export const readAccounts = (pathOf: (name: keyof Accounts) => string): Accounts => ({
  passwd: readAccountFile(pathOf("passwd")),
  group: readAccountFile(pathOf("group")),
});

/**
 * Resolves a user in the accounts of a root. As in containers, a user without an explicit group is in the groups that list its name as a
 * member. **Errors**: `InvalidSpec`.
 */
export function resolveCommandUser(user: string, { passwd, group }: Accounts): CommandUser {
  const ids = resolveUser(user, passwd, "in the program's root");
  if ("problem" in ids) throw new ExecutionError("InvalidSpec", `user: ${ids.problem.replace(/^user /, "")}`);
  const groups = user.includes(":") ? [] : groupsOf(nameOf(user, ids.uid, passwd), group).filter((gid) => gid !== ids.gid);
  if (groups.length > maxGroups)
    throw new ExecutionError("InvalidSpec", `user: ${user} must be in at most ${maxGroups} groups, not ${groups.length}`);
  return { ...ids, groups, home: homeIn(passwd, ids.uid) };
}

/** The login name of a user; undefined for an id without an entry. */
function nameOf(user: string, uid: number, passwd: string): string | undefined {
  return (accountNamed(passwd, user) ?? accountWithId(passwd, uid))?.[0];
}

function groupsOf(name: string | undefined, group: string): readonly number[] {
  const ids = new Set<number>();
  if (name === undefined || name === "") return [];
  for (const [, , id, members = ""] of entriesWith(group, name)) {
    const gid = Number(id || "x");
    if (`,${members},`.includes(`,${name},`) && Number.isInteger(gid) && gid >= 0 && gid < 2 ** 32 - 1) ids.add(gid);
  }
  return [...ids];
}
