import { exitOnClosedOutput } from "./closed-output.ts";
import { createProgram } from "./program.ts";
import { runProgram } from "./run-program.ts";

/**
 * Runs the command line `keelson ARGS`. Resolves to the exit status: 0 for success, 1 for a failure, 2 for invalid usage. Only the
 * code of the command that `args` selects is loaded.
 */
export function main(args: readonly string[]): Promise<number> {
  exitOnClosedOutput(process);
  return runProgram(args, (setExitCode) => createProgram(args, setExitCode));
}
