import type { CommandContext, FlagDefinition } from "@keelson/operator";

/** Namespace of the App. */
export const namespaceFlag: FlagDefinition = {
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the App",
  default: "default",
};

/** The App that a command is about. */
export function keyOf({ args, flags }: CommandContext): { namespace: string; name: string } {
  return { namespace: typeof flags.namespace === "string" ? flags.namespace : "default", name: args[0] ?? "" };
}
