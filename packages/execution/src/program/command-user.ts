import { ExecutionError } from "../driver.ts";
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

const fieldsOf = (text: string): readonly (readonly string[])[] => text.split("\n").map((line) => line.split(":"));

/** The login name of a user; undefined for an id without an entry. */
function nameOf(user: string, uid: number, passwd: string): string | undefined {
  const entries = fieldsOf(passwd);
  return entries.find(([name]) => name === user)?.[0] ?? entries.find((fields) => fields[2] === String(uid))?.[0];
}

function groupsOf(name: string | undefined, group: string): readonly number[] {
  if (name === undefined || name === "") return [];
  const ids = fieldsOf(group)
    .filter(([, , , members = ""]) => members.split(",").includes(name))
    .map(([, , id]) => Number(id || "x"))
    .filter((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32 - 1);
  return [...new Set(ids)];
}
