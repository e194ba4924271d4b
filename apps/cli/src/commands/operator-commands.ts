import { systemClock } from "@keelson/api-machinery/time";
import { listenForShutdown } from "@keelson/controller";
import type { CommandDefinition, Operator } from "@keelson/operator";
import { logLevelFlag } from "@keelson/operator/flags";
import type { Command } from "commander";
import { addConnectionFlags, createCommand, flagValues } from "../command-line.ts";
import { createLogger } from "../logger.ts";

/** The part of an operator that its commands need. */
type CommandGroup = Pick<Operator, "name" | "commandName" | "commands" | "resources">;

/** Adds an operator's own commands to its group: `keelson robots agent`, `keelson mpi run` and so on. */
export function defineOperatorCommands(group: Command, operator: CommandGroup, setExitCode: (code: number) => void): void {
  for (const definition of operator.commands) {
    const command = createCommand(definition);
    if (definition.usesCluster !== false) addConnectionFlags(command);
    const name = `keelson ${operator.commandName ?? operator.name} ${definition.name}`;
    command
      .copyInheritedSettings(group)
      .showHelpAfterError(`(see ${name} --help)`)
      .action(async () => {
        setExitCode(await runCommand(operator, definition, command));
      });
    group.addCommand(command, { hidden: definition.isInternal === true });
  }
}

/** Loads little itself: agents run for a long time on small machines. */
async function runCommand(operator: CommandGroup, definition: CommandDefinition, command: Command): Promise<number> {
  const shutdown = listenForShutdown();
  const flags = flagValues(command);
  const verbosity = flags["verbose"] === true ? "debug" : "warn";
  const level = flags["log-level"] === undefined ? verbosity : logLevelFlag.read(flags);
  try {
    return await definition.run({
      args: command.args,
      flags,
      stdout: process.stdout,
      stderr: process.stderr,
      clock: systemClock,
      log: createLogger({ level }),
      signal: shutdown.signal,
      client: async () => (await import("../connect-cluster.ts")).connectCluster(flags),
    });
  } catch (error) {
    const { isMissingKind } = await import("@keelson/api-machinery");
    if (!isMissingKind(error)) throw error;
    const kinds = operator.resources.map(({ kind }) => kind).join(", ");
    throw new Error(
      `the server does not serve ${kinds}: start \`keelson up\` with ${operator.name}, or apply the operator's CustomResourceDefinitions`,
      { cause: error },
    );
  } finally {
    shutdown.dispose();
  }
}
