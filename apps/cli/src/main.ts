import { Command, CommanderError } from "commander";
import { isUsageError } from "@keelson/operator/flags";
import { commandEntries } from "./commands/commands.ts";
import { operatorEntries } from "./operators.ts";
import { keelsonVersion } from "./version.ts";

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

async function createProgram(args: readonly string[], setExitCode: (code: number) => void): Promise<Command> {
  const program = new Command("keelson")
    .description(
      "Run robots, stateful middleware, operator tests, MPI jobs and code sandboxes on Kubernetes.\n" +
        "`keelson up` runs everything on this machine; `keelson operator` runs the controllers against a cluster.",
    )
    .version(keelsonVersion(), "-v, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .showHelpAfterError("(run with --help for usage)")
    .exitOverride();
  const selected = selectedCommand(args);
  for (const entry of commandEntries) {
    const command = program.command(entry.name, { hidden: entry.isInternal === true }).description(entry.description);
    if (entry.name !== selected) continue;
    const define = await entry.load();
    await define(command, setExitCode);
  }
  for (const entry of operatorEntries) {
    const group = program.command(entry.name).description(entry.description);
    if (entry.commandName !== undefined) group.alias(entry.commandName);
    if (selected === undefined || (selected !== entry.name && selected !== entry.commandName)) continue;
    const { defineOperatorCommands } = await import("./commands/operator-commands.ts");
    defineOperatorCommands(group, await entry.load(), setExitCode);
  }
  return program;
}

/** The command that `args` selects: `up` for `up --data-dir x` and for `help up`. */
function selectedCommand(args: readonly string[]): string | undefined {
  const [first, second] = args.filter((argument) => !argument.startsWith("-"));
  return first === "help" ? second : first;
}
