import type { ProgramSpec } from "../../driver.ts";
import { StartFailure } from "../../process/launcher.ts";
import { homeIn, readPasswd, resolveLocalUser, resolveUser } from "./user.ts";
import type { UserIds } from "./user.ts";

/** The user that this process runs as. */
export const own: UserIds = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

/**
 * The user of a program, or undefined for the supervisor's own. With its own root, names are resolved in that root; a supervisor
 * that is not root maps the user inside the program's user namespace only. Throws {@link StartFailure}.
 */
export function programUser(spec: ProgramSpec): UserIds | undefined {
  if (spec.user === undefined) return undefined;
  const root = spec.isolation?.root;
  const user = root === undefined ? resolveLocalUser(spec.user) : resolveUser(spec.user, readPasswd(root), "in its image");
  if ("problem" in user) throw new StartFailure(`could not start the program: ${user.problem}`, 126);
  return user;
}

/** Whether a program runs as its own user id. Only root can change the user. */
export const hasPrivateUser = (spec: ProgramSpec): boolean => spec.isolation?.hasPrivateUser === true && own.uid === 0;

/** The user that starts a program on the host, or undefined for the supervisor's own. Throws {@link StartFailure}. */
export function hostUser(spec: ProgramSpec): UserIds | undefined {
  if (hasPrivateUser(spec)) return undefined;
  const user = programUser(spec);
  return own.uid === 0 ? user : undefined;
}

/** The home directory of a program's user in its root. */
export function homeDirectory(spec: ProgramSpec): string {
  return homeIn(readPasswd(spec.isolation?.root), programUser(spec)?.uid ?? own.uid);
}
