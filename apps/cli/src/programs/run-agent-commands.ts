import { Command } from "commander";
import type { CommandDefinition, Operator } from "@keelson/operator";
import { defineOperatorCommands } from "../commands/operator-commands.ts";
import { runProgram } from "../run-program.ts";

/**
 * Runs the command line of an agent's image: `keelson GROUP COMMAND`, with the commands of its Pods and no others. The group has the names that
 * it has in the whole command line. Resolves to the exit status, see {@link runProgram}.
 */
export function runAgentCommands(
  group: Pick<Operator, "name" | "commandName">,
  commands: readonly CommandDefinition[],
): Promise<number> {
  return runProgram(process.argv.slice(2), (setExitCode) => {
    const program = new Command("keelson")
      .description("The commands of an agent's image. The `keelson` image has all commands.")
      .helpOption("-h, --help", "print this help")
      .showHelpAfterError("(run with --help for usage)")
      .exitOverride();
    const member = program.command(group.name).description(`the commands of ${group.name} in this image`);
    if (group.commandName !== undefined) member.alias(group.commandName);
    defineOperatorCommands(member, { ...group, commands, resources: [] }, setExitCode);
    return program;
  });
}
