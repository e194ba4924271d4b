import { spawn } from "node:child_process";
import { chmodSync, chownSync } from "node:fs";
import type { Writable } from "node:stream";
import type { FifoPool } from "./fifo-pool.ts";
import { StartFailure } from "../process/launcher.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import { defaultPath } from "../program/program-spec.ts";
import type { ProgramInput } from "../shim/shim.ts";
import type { UserIds } from "../program/users/user.ts";

/**
 * Creates the FIFO that a program with an input or a terminal reads; undefined for others. Throws {@link StartFailure} if the machine
 * does not support FIFOs.
 */
export async function createInput(
  { spec, folder }: LaunchRequest,
  fifos: FifoPool,
  user: UserIds | undefined,
): Promise<ProgramInput | undefined> {
  if (spec.input === undefined && spec.terminal === undefined) return undefined;
  if (!(await fifos.take(folder.input))) {
    throw new StartFailure("could not create the named pipe for its input", 126);
  }
  chmodSync(folder.input, 0o600);
  if (user !== undefined) chownSync(folder.input, user.uid, user.gid);
  const mode = spec.input !== "once" ? "held" : spec.terminal === undefined ? "once" : "waiting";
  return { path: folder.input, mode };
}

/**
 * Opens a stream into a program's FIFO. A helper process opens the FIFO, which blocks until the program has opened its end, so that no
 * retries are needed. It ends with the program; `onWritten` is called when it exits.
 */
export function writeInput(path: string, onEnd: (listener: () => void) => () => void, onWritten: () => void): Writable {
  const copy = spawn("/bin/sh", ["-c", 'exec cat >"$0"', path], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: defaultPath },
  });
  // A program may exit before it has opened or read its input.
  const forget = onEnd(() => copy.kill());
  copy.on("error", () => {
    forget();
    copy.stdin.destroy();
  });
  copy.on("exit", () => {
    forget();
    copy.stdin.destroy();
    onWritten();
  });
  copy.stdin.on("error", () => {});
  return copy.stdin;
}
