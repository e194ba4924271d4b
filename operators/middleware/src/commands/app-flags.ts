import type { CommandContext } from "@keelson/operator";
import { textFlag } from "@keelson/operator/flags";

/** `--namespace` of an App. */
export const namespaceFlag = textFlag({
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the App",
  default: "default",
});

/** The App named in the arguments of a command. */
export function keyOf({ args, flags }: CommandContext): { namespace: string; name: string } {
  return { namespace: namespaceFlag.read(flags), name: args[0] ?? "" };
}
