import { type Command, CommanderError } from "commander";
import { isUsageError } from "@keelson/operator/flags";

/**
 * Runs a command line that `define` creates, which reports non-zero exit statuses through its argument. Resolves to the exit status: 0 for
 * success, 1 for a failure, 2 for invalid usage.
 */
export async function runProgram(
  args: readonly string[],
  define: (setExitCode: (code: number) => void) => Command | Promise<Command>,
): Promise<number> {
  let exitCode = 0;
  try {
    const program = await define((code) => {
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
