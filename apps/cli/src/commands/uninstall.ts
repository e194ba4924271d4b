import { createInterface } from "node:readline/promises";
import { type Client, connect } from "@keelson/client";
import { listenForShutdown } from "@keelson/controller";
import type { FlagValues } from "@keelson/operator";
import { switchFlag, UsageError } from "@keelson/operator/flags";
import { addConnectionFlags, addFlag, flagValues } from "../command-line.ts";
import { displayName, planRemoval, remove, type Removal, type RemovedObject } from "../install/cluster/removal.ts";
import { dryRunFlag, namespaceFlag, onlyFlag, selectOperators, timeoutFlag } from "../install/install-flags.ts";
import { loadOperators } from "../operators.ts";
import type { DefineCommand } from "./commands.ts";

const yesFlag = switchFlag({ name: "yes", short: "y", description: "do not ask before deleting the objects of users" });

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
  const shutdown = listenForShutdown();
  const client = await connect({ kubeconfig: textOf(flags.kubeconfig), context: textOf(flags.context) });
  const { signal } = shutdown;
  try {
    const isComplete = operators.length === all.length;
    const removal = await planRemoval({ client, namespace, operators, isComplete, signal });
    return await act(client, removal, flags, signal);
  } catch (error) {
    if (signal.aborted && error === signal.reason) return 130;
    throw error;
  } finally {
    await client.close();
    shutdown.dispose();
  }
}

async function act(client: Client, removal: Removal, flags: FlagValues, signal: AbortSignal): Promise<number> {
  const print = (line: string): void => void process.stdout.write(`${line}\n`);
  const { userObjects, installed } = removal;
  if (userObjects.length + installed.length === 0) {
    print(`Keelson is not installed in namespace ${namespaceFlag.read(flags)}`);
    return 0;
  }
  if (userObjects.length > 0) print(["These objects of users will be deleted:", ...summarize(userObjects)].join("\n"));
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
  if (!process.stdin.isTTY) throw new UsageError("uninstall asks before it deletes: pass --yes if there is no terminal");
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const answer = await prompt.question(
      `Delete ${userObjects.length} objects of users and ${installed.length} objects of Keelson? Type yes: `,
      { signal },
    );
    return answer.trim() === "yes";
  } finally {
    prompt.close();
  }
}

const textOf = (flag: FlagValues[string]): string | undefined => (typeof flag === "string" ? flag : undefined);
