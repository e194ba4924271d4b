import { join } from "node:path";
import { type ExecSpec, ExecutionError } from "../driver.ts";
import { pathInRoot } from "../files/root-path.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import { readAccounts, resolveCommandUser } from "../program/users/command-user.ts";
import { hasPrivateUser } from "../program/users/program-user.ts";
import type { UserIds } from "../program/users/user.ts";
import { insideUser, settingsFolder, wantsPrivateUser } from "./bubblewrap-options.ts";
import { privateScope, privateUser, privateUserOf } from "./private-user.ts";
import type { MappedId } from "./user-namespace.ts";

/*
 * A command that runs as another user than its program has host ids of its own, so that the kernel keeps the two apart. They derive from
 * the program and the ids inside, so every command of a user has the same. bubblewrap gives a program a user namespace with one id, which
 * cannot be extended. The command therefore has another one, in which the program's ids have their names too. bubblewrap, whose root is the
 * machine's, has a third user, so that the command cannot trace it.
 */

/** The user of a command that is not its program's. */
export interface OtherUser {
  readonly inside: UserIds;
  readonly home: string;
  /** The host ids of bubblewrap until it changes to the user, with the groups of the command. No command has them. */
  readonly starter: UserIds & { readonly groups: readonly number[] };
  /** The ids of its user namespace. */
  readonly ids: { readonly users: readonly MappedId[]; readonly groups: readonly MappedId[] };
}

/** Ids of {@link OtherUser.starter} inside. The first that the command does not have is used. */
const starterIds = [2 ** 31 - 2, 2 ** 31 - 3];

/** The user of a command; undefined for that of its program. **Errors**: `InvalidSpec`, `Unsupported`. */
export function otherUser({ spec, folder }: LaunchRequest, { user }: Pick<ExecSpec, "user">): OtherUser | undefined {
  if (user === undefined) return undefined;
  const { isolation } = spec;
  if (!wantsPrivateUser(spec))
    throw new ExecutionError("Unsupported", "user: requires a program with isolation.hasPrivateUser");
  const root = isolation?.root;
  const accounts = readAccounts((name) =>
    root === undefined ? join(settingsFolder(folder), name) : pathInRoot(root, `/etc/${name}`),
  );
  const { uid, gid, groups, home } = resolveCommandUser(user, accounts);
  const program = insideUser(spec);
  // The program has no supplementary groups, and neither does a command that is to run as the same user.
  if (uid === program.uid && gid === program.gid) return undefined;
  if (!hasPrivateUser(spec)) {
    const problem = `user: ${user} requires a driver that runs as root; this one runs commands only as ${program.uid}:${program.gid}`;
    throw new ExecutionError("Unsupported", problem);
  }
  const host = privateUser(folder, isolation);
  const scope = privateScope(folder, isolation);
  const userOf = (id: number): number => (id === program.uid ? host.uid : privateUserOf(`${scope}/user/${id}`).uid);
  const groupOf = (id: number): number => (id === program.gid ? host.gid : privateUserOf(`${scope}/group/${id}`).gid);
  const starter = privateUserOf(`${scope}/starter`);
  const mapped = (ids: readonly number[], hostOf: (id: number) => number): readonly MappedId[] => {
    const own = starterIds.find((id) => !ids.includes(id)) ?? 0;
    return [...[...new Set(ids)].map((inside) => ({ inside, host: hostOf(inside) })), { inside: own, host: starter.uid }];
  };
  return {
    inside: { uid, gid },
    home,
    starter: { ...starter, groups: groups.map(groupOf) },
    // bubblewrap mounts /dev/pts with the ids 0.
    ids: { users: mapped([0, program.uid, uid], userOf), groups: mapped([0, program.gid, gid, ...groups], groupOf) },
  };
}
