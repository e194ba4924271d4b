import { readFileSync } from "node:fs";
import { isMissingKind } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { connect } from "@keelson/client";
import { listenForShutdown } from "@keelson/controller";
import { type CommandDefinition, type Operator } from "@keelson/operator";
import { Command, CommanderError } from "commander";
import { addConnectionFlags, commandOf, flagValues, UsageError } from "./command-line.ts";
import { addImageCommand } from "./commands/image.ts";
import { addOperatorCommand } from "./commands/operator.ts";
import { addPortForwardCommand } from "./commands/port-forward.ts";
import { addUpCommand } from "./commands/up.ts";
import { createLogger, isLogLevel } from "./logger.ts";
import { operators } from "./operators.ts";

/** Runs the command line `keelson ARGS`. Answers the exit status: 0, 1 for a failure, 2 for a wrong call. */
export async function main(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = createProgram((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof UsageError) {
      process.stderr.write(`keelson: ${error.message}\n`);
      return 2;
    }
    process.stderr.write(`keelson: ${error instanceof Error ? error.message : String(error)}\n`);
    if (process.env.KEELSON_DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`);
    return 1;
  }
}

function createProgram(setExitCode: (code: number) => void): Command {
  const program = new Command("keelson")
    .description(
      "Robots, stateful middleware, operator tests, MPI jobs and code sandboxes on Kubernetes.\n" +
        "`keelson up` runs everything on this machine; `keelson operator` runs the controllers against a cluster.",
    )
    .version(readVersion(), "-v, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .showHelpAfterError("(--help says what there is)")
    .exitOverride();
  addUpCommand(program, operators, setExitCode);
  addOperatorCommand(program, operators, setExitCode);
  addPortForwardCommand(program, setExitCode);
  addImageCommand(program);
  for (const operator of operators) program.addCommand(familyCommand(operator, program, setExitCode));
  return program;
}

function familyCommand(operator: Operator, program: Command, setExitCode: (code: number) => void): Command {
  const family = new Command(operator.name).description(operator.description).copyInheritedSettings(program);
  if (operator.commandName !== undefined) family.alias(operator.commandName);
  for (const definition of operator.commands) {
    const command = commandOf(definition);
    if (definition.usesCluster !== false) addConnectionFlags(command);
    const name = `keelson ${operator.commandName ?? operator.name} ${definition.name}`;
    command
      .copyInheritedSettings(program)
      .showHelpAfterError(`(see ${name} --help)`)
      .action(async () => {
        setExitCode(await runCommand(operator, definition, command));
      });
    family.addCommand(command, { hidden: definition.isInternal === true });
  }
  return family;
}

async function runCommand(operator: Operator, definition: CommandDefinition, command: Command): Promise<number> {
  const shutdown = listenForShutdown();
  const flags = flagValues(command);
  const level = typeof flags["log-level"] === "string" ? flags["log-level"] : "warn";
  if (!isLogLevel(level))
    throw new UsageError(`--log-level: ${JSON.stringify(level)} is none of debug, info, warn, error, silent`);
  try {
    return await definition.run({
      args: command.args,
      flags,
      stdout: process.stdout,
      stderr: process.stderr,
      clock: systemClock,
      log: createLogger({ level }),
      signal: shutdown.signal,
      client: () =>
        connect({
          ...(typeof flags.kubeconfig === "string" ? { kubeconfig: flags.kubeconfig } : {}),
          ...(typeof flags.context === "string" ? { context: flags.context } : {}),
        }),
    });
  } catch (error) {
    if (!isMissingKind(error)) throw error;
    const kinds = operator.resources.map(({ kind }) => `${kind}s`).join(", ");
    throw new Error(
      `this server has no ${kinds}: start \`keelson up\` with ${operator.name}, or apply the family's CustomResourceDefinitions`,
      { cause: error },
    );
  } finally {
    shutdown.dispose();
  }
}

function readVersion(): string {
  const parsed: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  return typeof parsed === "object" && parsed !== null && "version" in parsed ? String(parsed.version) : "unknown";
}
