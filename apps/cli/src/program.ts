import { Command } from "commander";
import { commandEntries } from "./commands/commands.ts";
import { operatorEntries } from "./operators.ts";
import { keelsonVersion } from "./version.ts";

/** Creates the command line. Only the commands of the group that `args` selects are defined; the others are listed by name. */
export async function createProgram(args: readonly string[], setExitCode: (code: number) => void): Promise<Command> {
  const program = new Command("keelson")
    .description(
      "Run robots, stateful middleware, operator tests, MPI jobs and code sandboxes on Kubernetes.\n" +
        "`keelson up` runs everything on this machine; `keelson operator` runs the controllers against a cluster.",
    )
    .version(keelsonVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    // The same prefix as that of all other errors.
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, "keelson: ")) })
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
    const small = args[0] === selected ? entry.smallCommands?.[args[1] ?? ""] : undefined;
    const operator = small === undefined ? await entry.load() : { ...entry, commands: [await small()], resources: [] };
    defineOperatorCommands(group, operator, setExitCode);
  }
  return program;
}

/** The command that `args` selects: `up` for `up --data-dir x` and for `help up`. */
function selectedCommand(args: readonly string[]): string | undefined {
  const [first, second] = args.filter((argument) => !argument.startsWith("-"));
  return first === "help" ? second : first;
}
