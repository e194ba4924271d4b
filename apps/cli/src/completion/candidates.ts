import type { Command, Option } from "commander";

/** A completion of the last word. */
export interface Candidate {
  readonly word: string;
  readonly description: string;
}

/** What the last word of a command line may be. */
export type Expected =
  | { readonly kind: "words"; readonly candidates: readonly Candidate[] }
  /** A file, a number or another value that only the user knows. */
  | { readonly kind: "value" }
  /** The name of a namespace. */
  | { readonly kind: "namespace" }
  /** The value of a positional argument, such as `NAME`. `group`: the command's parent, such as `mpi`. */
  | { readonly kind: "argument"; readonly group: string; readonly argument: string };

/**
 * What the last of `words`, which may be empty, can be completed to. `words` does not contain `keelson` itself. Candidates are not yet
 * filtered by what the user has typed.
 */
export function expectedWord(program: Command, words: readonly string[]): Expected {
  const last = words.at(-1) ?? "";
  const { command, previous, position } = descend(program, words.slice(0, -1));
  const awaiting = previous === undefined ? undefined : findOption(command, previous);
  if (awaiting !== undefined && takesValue(awaiting)) return valueOf(awaiting);
  if (last.startsWith("-")) return { kind: "words", candidates: command.options.filter(isShown).flatMap(flagCandidates) };
  const subcommands = command.commands.filter((each) => !isHidden(each));
  if (subcommands.length > 0) {
    const candidates = subcommands.flatMap((each) =>
      [each.name(), ...each.aliases()].map((word) => ({ word, description: each.description() })),
    );
    return { kind: "words", candidates };
  }
  const argument = command.registeredArguments[Math.min(position, command.registeredArguments.length - 1)];
  if (argument === undefined) return { kind: "words", candidates: command.options.filter(isShown).flatMap(flagCandidates) };
  return { kind: "argument", group: command.parent?.name() ?? "", argument: argument.name() };
}

interface Position {
  readonly command: Command;
  /** The word before the last one, if it is a flag. */
  readonly previous: string | undefined;
  /** Number of positional arguments so far. */
  readonly position: number;
}

/** Follows subcommands, skipping flags and their values. */
function descend(program: Command, words: readonly string[]): Position {
  let command = program;
  let position = 0;
  let previous: string | undefined;
  for (const word of words) {
    const awaiting = previous === undefined ? undefined : findOption(command, previous);
    previous = undefined;
    if (awaiting !== undefined && takesValue(awaiting)) continue;
    if (word.startsWith("-")) {
      previous = word;
      continue;
    }
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (next === undefined) position += 1;
    else command = next;
  }
  return { command, previous, position };
}

const takesValue = (option: Option): boolean => option.required || option.optional;
const isShown = (option: Option): boolean => !option.hidden;

function findOption(command: Command, flag: string): Option | undefined {
  // The value of --flag=value is part of the same word.
  return command.options.find((option) => option.long === flag || option.short === flag);
}

function valueOf(option: Option): Expected {
  if (option.argChoices !== undefined) {
    return {
      kind: "words",
      candidates: option.argChoices.map((form) => ({ word: form.replace(/=.*/, "="), description: "" })),
    };
  }
  return option.long === "--namespace" ? { kind: "namespace" } : { kind: "value" };
}

function flagCandidates({ long, description }: Option): readonly Candidate[] {
  return long === undefined || long === null ? [] : [{ word: long, description }];
}

/** Commander has no public accessor for hidden commands, but lists visible ones for the help. */
function isHidden(command: Command): boolean {
  const { parent } = command;
  return parent === null || !parent.createHelp().visibleCommands(parent).includes(command);
}
