import { ExecutionError } from "../../driver.ts";
import { groupsWith } from "./account-entries.ts";
import { readAccountFile } from "./account-file.ts";
import { accountOf, resolveAccount, type UserIds } from "./user.ts";

/** The user of a command alongside a program, with the ids that it has inside. */
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
  // Looked up once: a program can make the file long.
  const account = accountOf(user, passwd);
  const ids = resolveAccount(user, account, "in the program's root");
  if ("problem" in ids) throw new ExecutionError("InvalidSpec", `user: ${ids.problem.replace(/^user /, "")}`);
  const groups = user.includes(":") ? [] : groupsOf(account?.[0], group).filter((gid) => gid !== ids.gid);
  if (groups.length > maxGroups)
    throw new ExecutionError("InvalidSpec", `user: ${user} must be in at most ${maxGroups} groups, not ${groups.length}`);
  return { ...ids, groups, home: account?.[5] || "/" };
}

function groupsOf(name: string | undefined, group: string): readonly number[] {
  const ids = new Set<number>();
  if (name === undefined || name === "") return [];
  for (const id of groupsWith(group, name)) {
    const gid = Number(id || "x");
    if (Number.isInteger(gid) && gid >= 0 && gid < 2 ** 32 - 1) ids.add(gid);
  }
  return [...ids];
}
