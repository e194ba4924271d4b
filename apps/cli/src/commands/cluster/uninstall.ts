import { createInterface } from "node:readline/promises";
import type { Client } from "@keelson/client";
import type { FlagValues } from "@keelson/operator";
import { switchFlag, UsageError } from "@keelson/operator/flags";
import { addConnectionFlags, addFlag, flagValues } from "../../command-line.ts";
import { displayName, planRemoval, remove, type Removal, type RemovedObject } from "../../install/cluster/removal.ts";
import { withCluster } from "../../install/cluster/with-cluster.ts";
import { dryRunFlag, namespaceFlag, onlyFlag, selectOperators, timeoutFlag } from "../../install/install-flags.ts";
import { loadOperators } from "../../operators.ts";
import type { DefineCommand } from "../commands.ts";

const yesFlag = switchFlag({ name: "yes", short: "y", description: "delete without asking for confirmation" });

/** How many names of a kind are listed. */
const maxListed = 10;

/** Defines `keelson uninstall`. */
export const defineUninstallCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [onlyFlag, namespaceFlag, dryRunFlag, yesFlag, timeoutFlag]) addFlag(command, flag);
  addConnectionFlags(command);
  command.action(async () => setExitCode(await uninstall(flagValues(command))));
};

async function uninstall(flags: FlagValues): Promise<number> {
  const all = await loadOperators();
  const operators = selectOperators(flags, all);
  const namespace = namespaceFlag.read(flags);
  const isComplete = operators.length === all.length;
  return withCluster(flags, async (client, signal) => {
    const removal = await planRemoval({ client, namespace, operators, isComplete, signal });
    return act(client, removal, flags, signal);
  });
}

async function act(client: Client, removal: Removal, flags: FlagValues, signal: AbortSignal): Promise<number> {
  const print = (line: string): void => void process.stdout.write(`${line}\n`);
  const { userObjects, installed } = removal;
  if (userObjects.length + installed.length === 0) {
    print(`Keelson is not installed in namespace ${namespaceFlag.read(flags)}`);
    return 0;
  }
  if (userObjects.length > 0) print(["The following user objects will be deleted:", ...summarize(userObjects)].join("\n"));
  if (dryRunFlag.read(flags)) {
    for (const object of installed) print(`deleted     ${displayName(object)} (dry run)`);
    return 0;
  }
  if (!yesFlag.read(flags) && !(await confirm(removal, signal))) {
    print("nothing was deleted");
    return 1;
  }
  const deadline = AbortSignal.timeout(timeoutFlag.read(flags) || 24 * 3600 * 1000);
  await remove({ client, removal, onRemoved: (object) => print(`deleted     ${displayName(object)}`), signal, deadline });
  print("uninstalled");
  return 0;
}

/** The objects by kind: `SandboxPool: default/a, default/b and 3 more`. */
function summarize(objects: readonly RemovedObject[]): readonly string[] {
  const kinds = new Map<string, string[]>();
  for (const { type, namespace, name } of objects) {
    const names = kinds.get(type.kind) ?? [];
    kinds.set(type.kind, [...names, namespace === undefined ? name : `${namespace}/${name}`]);
  }
  return [...kinds].map(([kind, names]) => {
    const more = names.length > maxListed ? ` and ${names.length - maxListed} more` : "";
    return `  ${kind}: ${names.slice(0, maxListed).join(", ")}${more}`;
  });
}

async function confirm({ userObjects, installed }: Removal, signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY) throw new UsageError("uninstall needs confirmation: pass --yes if stdin is not a terminal");
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const answer = await prompt.question(
      `Delete ${userObjects.length} user objects and ${installed.length} objects of Keelson? Type yes: `,
      { signal },
    );
    return answer.trim() === "yes";
  } finally {
    prompt.close();
  }
}
