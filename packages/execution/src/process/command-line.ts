import { terminalCommand } from "../io/terminal.ts";
import { defaultPath } from "../program/program-spec.ts";
import { splitEnvironment } from "../shim/shim.ts";
import { type LaunchRequest, StartFailure } from "./launcher.ts";
import { programVariable, withoutExec } from "./process-tree.ts";
import type { Execution } from "./wrapping.ts";

/** What `execve` gets: the command with its arguments, and the environment. */
export interface CommandLine {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The command line of an execution, in its terminal if it has one. Throws {@link StartFailure}. */
export function commandLine({ spec, folder }: LaunchRequest, execution: Execution): CommandLine {
  const { inherited, assignments } = splitEnvironment({
    PATH: defaultPath,
    ...withoutExec(execution.env ?? spec.env),
    [programVariable]: folder.tag,
  });
  const [program] = execution.command;
  if (assignments.length > 0 && program.includes("=")) {
    const names = assignments.map((assignment) => assignment.slice(0, assignment.indexOf("="))).join(", ");
    throw new StartFailure(`a program with "=" in its name cannot have these environment variables: ${names}`, 126);
  }
  const words = assignments.length === 0 ? execution.command : ["env", ...assignments, ...execution.command];
  return spec.terminal === undefined ? { words, env: inherited } : terminalCommand(words, inherited, spec.terminal);
}
