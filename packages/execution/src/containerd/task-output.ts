import { closeSync, constants, openSync } from "node:fs";
import { basename, dirname } from "node:path";
import { StartFailure } from "../process/launcher.ts";
import { watchAlive } from "../io/fifo-pool.ts";
import type { FifoPool } from "../io/fifo-pool.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { createInput } from "../io/program-input.ts";
import { errorLog } from "../program/files/program-files.ts";

const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

/**
 * containerd's shim copies outputs to files, and a terminal's output to a logger process, which it starts itself and which outlives the
 * supervisor. Our logger holds the FIFO `alive` open; when it closes, all output is written.
 */
function logger({ alive, stdout }: ProgramFolder): string {
  const script = `exec 7<>${quote(alive)} 5>&-; exec cat <&3 >>${quote(stdout)}`;
  return `binary:///bin/sh?-c=${encodeURIComponent(script)}`;
}

/**
 * Another path of the same file. The shim opens equal paths once, and when one of the outputs ends it closes the file, although it may
 * not have copied all of the other output.
 */
function alternatePath(file: string): string {
  return `${dirname(file)}/./${basename(file)}`;
}

/** Opens a task's input and outputs, in the format of containerd's `CreateTask`. Throws {@link StartFailure}. */
export async function openTaskStreams(
  request: LaunchRequest,
  fifos: FifoPool,
): Promise<{ readonly stdin?: string; readonly stdout: string; readonly stderr: string; readonly terminal?: true }> {
  const { spec, folder } = request;
  const input = await createInput(request, fifos, undefined);
  const stdin = input === undefined ? {} : { stdin: input.path };
  if (spec.terminal === undefined) return { ...stdin, stdout: folder.stdout, stderr: alternatePath(errorLog(folder, spec)) };
  if (!(await fifos.take(folder.alive))) {
    throw new StartFailure("could not create the named pipe for its terminal", 126);
  }
  return { ...stdin, stdout: logger(folder), stderr: "", terminal: true };
}

/** Resolves when all terminal output of a program is in its log. */
export async function terminalFlushed({ alive }: ProgramFolder): Promise<void> {
  let held: number;
  try {
    // Fails with ENXIO without a reader; the logger reads as long as it runs.
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
