import type { FlagDefinition, FlagValues } from "@keelson/operator";

/** A flag or argument is wrong. The message names it. */
export class CommandFlagError extends Error {
  override readonly name = "CommandFlagError";
  readonly code = "BadFlag";
}

/** The flag that every command has. */
export const namespaceFlag: FlagDefinition = {
  name: "namespace",
  value: "NAMESPACE",
  description: "namespace of the job",
  default: "default",
};

/** Value of a flag; `undefined` where it is not given. */
export function text(flags: FlagValues, name: string): string | undefined {
  const value = flags[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Value of a flag that is a whole number. Throws a {@link CommandFlagError}. */
export function count(flags: FlagValues, name: string, least: number): number | undefined {
  const value = text(flags, name);
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < least || number > 2 ** 31 - 1)
    throw new CommandFlagError(`--${name}: ${JSON.stringify(value)} has to be a whole number from ${least}`);
  return number;
}
