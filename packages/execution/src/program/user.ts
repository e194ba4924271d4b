import { readFileSync } from "node:fs";
import { pathInRoot } from "../files/root-path.ts";

/** A user to run a program as. */
export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

/** What became of a `user` field: ids, or a sentence for why there are none. */
export type ResolvedUser = UserIds | { readonly problem: string };

const longestId = 2 ** 32 - 2;

/**
 * Finds the ids of `name`, `uid` or `uid:gid` in the text of a passwd file (passwd(5)). A bare uid takes the group of its
 * entry, and a group of its own number where it has none. `place` is for the words of a problem.
 */
export function resolveUser(user: string, passwd: string, place = "this machine"): ResolvedUser {
  const entries = passwd.split("\n").map((line) => line.split(":"));
  const numeric = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(user);
  if (numeric !== null) {
    const uid = Number(numeric[1]);
    const known = entries.find((entry) => Number(entry[2]) === uid && entry[2] !== "")?.[3];
    const gid = Number(numeric[2] ?? known ?? uid);
    return uid > longestId || gid > longestId ? { problem: `user ${user} is beyond the largest id` } : { uid, gid };
  }
  const entry = entries.find((fields) => fields[0] === user);
  const uid = Number(entry?.[2]);
  const gid = Number(entry?.[3]);
  return entry === undefined || !Number.isInteger(uid + gid)
    ? { problem: `there is no user ${user} ${place === "this machine" ? "on" : "in"} ${place}` }
    : { uid, gid };
}

/** The home of a user in the text of a passwd file; `/` where it says nothing. */
export function homeIn(passwd: string, uid: number): string {
  const entry = passwd
    .split("\n")
    .map((line) => line.split(":"))
    .find((fields) => fields[2] === String(uid));
  return entry?.[5] || "/";
}

/** The text of the passwd file below `root`; empty where there is none: then users are numbers only. */
export function readPasswd(root = "/"): string {
  try {
    return readFileSync(pathInRoot(root, "/etc/passwd"), "utf8");
  } catch {
    return "";
  }
}

/** {@link resolveUser} with this machine's `/etc/passwd`, refused where this process may not become that user. */
export function resolveLocalUser(user: string): ResolvedUser {
  const resolved = resolveUser(user, readPasswd());
  if ("problem" in resolved || process.getuid?.() === 0) return resolved;
  if (resolved.uid === process.getuid?.() && resolved.gid === process.getgid?.()) return resolved;
  return { problem: `running as user ${user} needs root` };
}
