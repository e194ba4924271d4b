import { choiceFlag } from "./flags.ts";
import type { CommandContext } from "./operator.ts";

/** `--output` of commands that print a result. */
export const outputFlag = choiceFlag({
  name: "output",
  short: "o",
  value: "FORMAT",
  description: "output format",
  choices: ["text", "json"],
  default: "text",
});

/** `result` as indented JSON for `--output json`, else what `text` returns. */
export function formatResult({ flags }: Pick<CommandContext, "flags">, result: unknown, text: () => string): string {
  return outputFlag.read(flags) === "json" ? `${JSON.stringify(result, undefined, 2)}\n` : text();
}
