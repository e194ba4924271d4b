import { spawn } from "node:child_process";
import { chmodSync, chownSync } from "node:fs";
import type { Writable } from "node:stream";
import type { FifoPool } from "./fifo-pool.ts";
import { StartFailure } from "../process/launcher.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import { defaultPath } from "../program/program-spec.ts";
import type { ProgramInput } from "../shim/shim.ts";
import type { UserIds } from "../program/user.ts";

/**
 * Makes the FIFO that a program with an input, or a terminal, reads; undefined for others. Throws {@link StartFailure} where this machine
 * has no FIFOs.
 */
export async function makeInput(
  { spec, folder }: LaunchRequest,
  fifos: FifoPool,
  user: UserIds | undefined,
): Promise<ProgramInput | undefined> {
  if (spec.input === undefined && spec.terminal === undefined) return undefined;
  if (!(await fifos.take(folder.input))) {
    throw new StartFailure("The program could not be started: its input needs a named pipe, and none could be made", 126);
  }
  chmodSync(folder.input, 0o600);
  if (user !== undefined) chownSync(folder.input, user.uid, user.gid);
  const mode = spec.input !== "once" ? "held" : spec.terminal === undefined ? "once" : "waiting";
  return { path: folder.input, mode };
}

/**
 * A stream into a program's FIFO. A process of its own opens it: that waits in the kernel until the program has come so far as to open its
 * end, however long that takes, and nobody has to try again. `onWritten` is called when it has ended.
 */
export function writeInput(path: string, ended: Promise<unknown>, onWritten: () => void): Writable {
  const copy = spawn("/bin/sh", ["-c", 'exec cat >"$0"', path], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: defaultPath },
  });
  // A program may end before it has read, or opened, its input.
  copy.on("error", () => copy.stdin.destroy());
  copy.on("exit", () => {
    copy.stdin.destroy();
    onWritten();
  });
  copy.stdin.on("error", () => {});
  void ended.then(() => copy.kill());
  return copy.stdin;
}
