import type { CommandContext, FlagDefinition } from "@keelson/operator";

/** `--namespace` of an App. */
export const namespaceFlag: FlagDefinition = {
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the App",
  default: "default",
};

/** The App named in the arguments of a command. */
export function keyOf({ args, flags }: CommandContext): { namespace: string; name: string } {
  return { namespace: typeof flags.namespace === "string" ? flags.namespace : "default", name: args[0] ?? "" };
}
