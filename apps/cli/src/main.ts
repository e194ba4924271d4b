import { CommanderError } from "commander";
import { isUsageError } from "@keelson/operator/flags";
import { createProgram } from "./program.ts";

/**
 * Runs the command line `keelson ARGS`. Resolves to the exit status: 0 for success, 1 for a failure, 2 for invalid usage. Only the
 * code of the command that `args` selects is loaded.
 */
export async function main(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  try {
    const program = await createProgram(args, (code) => {
      exitCode = code;
    });
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (isUsageError(error)) {
      process.stderr.write(`keelson: ${error.message}\n`);
      return 2;
    }
    process.stderr.write(`keelson: ${error instanceof Error ? error.message : String(error)}\n`);
    if (process.env.KEELSON_DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`);
    return 1;
  }
}
