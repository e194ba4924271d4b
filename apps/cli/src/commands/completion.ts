import { Namespace } from "@keelson/api-machinery/kinds";
import { type Client, connect } from "@keelson/client";
import type { ResourceType } from "@keelson/api-machinery";
import { type Command, Option } from "commander";
import { type Candidate, expectedWord, type Expected } from "../completion/candidates.ts";
import { completionScripts, shells } from "../completion/scripts.ts";
import { operatorEntries } from "../operators.ts";
import type { DefineCommand } from "./commands.ts";

/** Defines `keelson completion`. */
export const defineCompletionCommand: DefineCommand = (completion) => {
  for (const shell of shells) {
    completion
      .command(shell)
      .description(`print the completion script of ${shell}`)
      .action(() => void process.stdout.write(completionScripts[shell]));
  }
};

/** Defines `keelson complete`, which the scripts call. It prints nothing for a command line that it cannot complete. */
export const defineCompleteCommand: DefineCommand = (command) => {
  command.argument("[words...]").action(async (words: readonly string[]) => {
    const { createProgram } = await import("../program.ts");
    const program = await createProgram(words, () => {});
    const last = words.at(-1) ?? "";
    const candidates = await candidatesFor(expectedWord(withHelpFlags(program), words), last);
    const lines = candidates
      .filter(({ word }) => word.startsWith(last))
      .map(({ word, description }) => `${word}\t${description}\n`);
    process.stdout.write(lines.join(""));
  });
};

/** How long names may take: a shell that hangs is worse than one that does not complete. */
const lookupMs = 2_000;

async function candidatesFor(expected: Expected, prefix: string): Promise<readonly Candidate[]> {
  switch (expected.kind) {
    case "words":
      return expected.candidates;
    case "value":
      return [];
    case "namespace":
      return namesOf(Namespace);
    case "argument": {
      if (prefix.includes("/")) return [];
      const type = await kindOf(expected.group, expected.argument);
      return type === undefined ? [] : namesOf(type);
    }
  }
}

/** The kind that an argument names: `ROBOT` and `ROBOTS` are names of Robots, `NAME` and `NAMES` those of the first kind of the operator. */
async function kindOf(group: string, argument: string): Promise<ResourceType | undefined> {
  const entry = operatorEntries.find(({ name }) => name === group);
  if (entry === undefined) return undefined;
  const { resources } = await entry.load();
  const singular = argument.replace(/S$/, "");
  if (singular === "NAME") return resources[0];
  return resources.find(({ kind }) => kind.toUpperCase() === singular);
}

async function namesOf(type: ResourceType): Promise<readonly Candidate[]> {
  let client: Client | undefined;
  try {
    client = await connect();
    const { items } = await client.list(type, { signal: AbortSignal.timeout(lookupMs) });
    return items.map(({ metadata }) => ({ word: metadata.name ?? "", description: metadata.namespace ?? "" }));
  } catch {
    // Not reachable: complete nothing.
    return [];
  } finally {
    await client?.close();
  }
}

/** Every command accepts `--help`, which commander adds only when it prints it. */
function withHelpFlags(program: Command): Command {
  const visit = (command: Command): void => {
    command.addOption(new Option("-h, --help", "print this help"));
    command.commands.forEach(visit);
  };
  visit(program);
  return program;
}
