import { closeSync, constants, openSync } from "node:fs";
import { StartFailure } from "../process/launcher.ts";
import { watchAlive } from "../io/fifo-pool.ts";
import type { FifoPool } from "../io/fifo-pool.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { makeInput } from "../io/program-input.ts";
import { errorLog } from "../program/program-place.ts";

const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

/**
 * containerd's shim copies outputs to the files that it is given, and a terminal's to a logger, which it starts itself and which outlives
 * the supervisor as the shim does. The FIFO `alive` that ours holds open says, by its end, that all is written.
 */
function logger({ alive, stdout }: ProgramFolder): string {
  const script = `exec 7<>${quote(alive)} 5>&-; exec cat <&3 >>${quote(stdout)}`;
  return `binary:///bin/sh?-c=${encodeURIComponent(script)}`;
}

/** Where a task's input comes from and its outputs go, as containerd's `CreateTask` takes it. Throws {@link StartFailure}. */
export async function taskOutput(
  request: LaunchRequest,
  fifos: FifoPool,
): Promise<{ readonly stdin?: string; readonly stdout: string; readonly stderr: string; readonly terminal?: true }> {
  const { spec, folder } = request;
  const input = await makeInput(request, fifos, undefined);
  const stdin = input === undefined ? {} : { stdin: input.path };
  if (spec.terminal === undefined) return { ...stdin, stdout: folder.stdout, stderr: errorLog(folder, spec) };
  if (!(await fifos.take(folder.alive))) {
    throw new StartFailure("The program could not be started: its terminal needs a named pipe, and none could be made", 126);
  }
  return { ...stdin, stdout: logger(folder), stderr: "", terminal: true };
}

/** Resolves when all that a program's terminal showed is in its log. */
export async function terminalCopied({ alive }: ProgramFolder): Promise<void> {
  let held: number;
  try {
    // Refused where nobody reads, which the logger does as long as it runs.
    held = openSync(alive, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    return;
  }
  await new Promise<void>((resolve) => {
    const watch = watchAlive(alive, resolve);
    closeSync(held);
    if (watch === undefined) resolve();
  });
}
