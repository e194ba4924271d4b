import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { ExecutionError } from "../driver.ts";
import { describeError } from "../files/file-error.ts";
import type { UserIds } from "../program/users/user.ts";

/** A range of one id: what it is inside, and on the host. */
export interface MappedId {
  readonly inside: number;
  readonly host: number;
}

/** A user namespace that exists until {@link UserNamespace.release}, or while it has processes or open descriptors. */
export interface UserNamespace {
  /** Path of the namespace below `/proc`. */
  readonly path: string;
  /** Ends the process that holds it. */
  release(): void;
}

/**
 * Creates a user namespace with these ids, which a process of `owner` can join. Only root can map more than one id. The process that holds
 * it is outside of every sandbox.
 */
export async function createUserNamespace(
  owner: UserIds,
  { users, groups }: { readonly users: readonly MappedId[]; readonly groups: readonly MappedId[] },
): Promise<UserNamespace> {
  const ids = [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, "--clear-groups"];
  const privileges = ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"];
  const holder = spawn("setpriv", [...ids, ...privileges, "unshare", "--user", "--", "cat"], {
    cwd: "/",
    stdio: ["pipe", "pipe", "ignore"],
  });
  const release = (): void => void holder.kill("SIGKILL");
  try {
    holder.stdin.on("error", () => {});
    const ended = Promise.race([once(holder, "exit"), once(holder, "error")]).then(() => {
      throw new Error("its process has ended");
    });
    ended.catch(() => {});
    // It answers once it is in the namespace.
    holder.stdin.write("ready\n");
    await Promise.race([once(holder.stdout, "data"), ended]);
    const path = `/proc/${holder.pid ?? 0}`;
    // The kernel accepts one write.
    writeFileSync(`${path}/uid_map`, mapOf(users));
    writeFileSync(`${path}/gid_map`, mapOf(groups));
    return { path: `${path}/ns/user`, release };
  } catch (error) {
    release();
    throw new ExecutionError("Unsupported", `user: could not create a user namespace: ${describeError(error)}`, {
      cause: error,
    });
  }
}

const mapOf = (ids: readonly MappedId[]): string => ids.map(({ inside, host }) => `${inside} ${host} 1\n`).join("");
