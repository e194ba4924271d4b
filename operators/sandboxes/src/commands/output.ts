import type { CommandContext, FlagDefinition } from "@keelson/controller";
import { CommandError, textFlag } from "./connection.ts";

/** How a command shows what it found. */
export const outputFlag: FlagDefinition = {
  name: "output",
  short: "o",
  value: "FORMAT",
  description: "text or json",
  default: "text",
};

/** Writes a value as JSON where `--output json` asks for it, else as text. */
export function show(context: CommandContext, value: unknown, text: () => string): void {
  const format = textFlag(context, "output") ?? "text";
  if (format !== "text" && format !== "json")
    throw new CommandError(`--output: ${JSON.stringify(format)} has to be text or json`);
  context.stdout.write(format === "json" ? `${JSON.stringify(value, undefined, 2)}\n` : text());
}
