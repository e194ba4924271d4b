import type { CommandContext, FlagDefinition } from "./operator.ts";

/** The flag `--output` of a command that prints a result. */
export const outputFlag: FlagDefinition = {
  name: "output",
  short: "o",
  value: "FORMAT",
  description: "how the result is printed",
  choices: ["text", "json"],
  default: "text",
};

/** A result as `--output json` prints it, or `text`. */
export function formatResult({ flags }: Pick<CommandContext, "flags">, result: unknown, text: () => string): string {
  return flags["output"] === "json" ? `${JSON.stringify(result, undefined, 2)}\n` : text();
}
