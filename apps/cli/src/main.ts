import { createProgram } from "./program.ts";
import { runProgram } from "./run-program.ts";

export { exitOnClosedOutput } from "./closed-output.ts";

/**
 * Runs the command line `keelson ARGS`. Resolves to the exit status: 0 for success, 1 for a failure, 2 for invalid usage. Only the
 * code of the command that `args` selects is loaded.
 */
export const main = (args: readonly string[]): Promise<number> =>
  runProgram(args, (setExitCode) => createProgram(args, setExitCode));
