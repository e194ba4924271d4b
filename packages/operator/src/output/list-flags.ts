import { type Flag, type FlagValues, switchFlag, textFlag } from "../flags.ts";

/** `--all-namespaces` of commands that list objects. */
export const allNamespacesFlag = switchFlag({
  name: "all-namespaces",
  short: "A",
  description: "list objects in all namespaces; --namespace is ignored",
});

/** `--selector` of commands that list objects. */
export const selectorFlag = textFlag({
  name: "selector",
  short: "l",
  value: "LABELS",
  description: "list only objects with these labels, such as app=web,env!=test",
});

/** `--watch` of commands that list objects. */
export const watchFlag = switchFlag({
  name: "watch",
  short: "w",
  description: "after listing the objects, print every change until Ctrl-C",
});

/** The namespace of a list: that of `namespaceFlag`, or undefined with `--all-namespaces`. */
export function listNamespace(flags: FlagValues, namespaceFlag: Flag<string>): string | undefined {
  return allNamespacesFlag.read(flags) ? undefined : namespaceFlag.read(flags);
}
