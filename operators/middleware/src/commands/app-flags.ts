import type { CommandContext, FlagDefinition } from "@keelson/controller";

/** Namespace of the App. */
export const namespaceFlag: FlagDefinition = {
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the App",
  default: "default",
};

/** How results are printed. */
export const outputFlag: FlagDefinition = {
  name: "output",
  short: "o",
  value: "FORMAT",
  description: "table or json",
  default: "table",
};

/** The App that a command is about. */
export function keyOf({ args, flags }: CommandContext): { namespace: string; name: string } {
  return { namespace: typeof flags.namespace === "string" ? flags.namespace : "default", name: args[0] ?? "" };
}

/** Whether JSON is wanted. */
export const isJson = ({ flags }: CommandContext): boolean => flags.output === "json";

/** A value as it is printed with `--output json`. */
export const toJson = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;
