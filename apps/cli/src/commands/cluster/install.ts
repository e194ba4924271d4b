import type { Client } from "@keelson/client";
import type { FlagValues, Operator } from "@keelson/operator";
import { choiceFlag } from "@keelson/operator/flags";
import type { Command } from "commander";
import { addConnectionFlags, addFlag, flagValues } from "../../command-line.ts";
import { applyObjects } from "../../install/cluster/apply-objects.ts";
import { InstallError } from "../../install/cluster/install-error.ts";
import { findStale, prune } from "../../install/cluster/prune.ts";
import { displayName } from "../../install/cluster/removal.ts";
import { waitForRollouts } from "../../install/cluster/rollout.ts";
import { withCluster } from "../../install/cluster/with-cluster.ts";
import {
  dryRunFlag,
  namespaceFlag,
  onlyFlag,
  readValueSources,
  selectOperators,
  setFlag,
  timeoutFlag,
  valuesFlag,
} from "../../install/install-flags.ts";
import { type InstalledObject, installParts, renderInstallation } from "../../install/install-parts.ts";
import { printObjects } from "../../install/manifest-file.ts";
import { readValues, type Values } from "../../install/values.ts";
import { loadOperators } from "../../operators.ts";
import { keelsonVersion } from "../../version.ts";
import type { DefineCommand } from "../commands.ts";

const outputFlag = choiceFlag({
  name: "output",
  short: "o",
  value: "FORMAT",
  description: "yaml or json prints the objects and does not connect to a cluster",
  choices: ["text", "yaml", "json"],
  default: "text",
});

const flags = [onlyFlag, namespaceFlag, valuesFlag, setFlag, dryRunFlag, outputFlag, timeoutFlag];

/** Defines `keelson install`. */
export const defineInstallCommand: DefineCommand = (command, setExitCode) => define(command, setExitCode, false);

/** Defines `keelson upgrade`. */
export const defineUpgradeCommand: DefineCommand = (command, setExitCode) => define(command, setExitCode, true);

function define(command: Command, setExitCode: (code: number) => void, isUpgrade: boolean): void {
  for (const flag of flags) addFlag(command, flag);
  addConnectionFlags(command);
  command.action(async () => setExitCode(await install(flagValues(command), isUpgrade)));
}

/** What to install. */
interface Plan {
  readonly namespace: string;
  /** Operators of `--only`. */
  readonly operators: readonly Operator[];
  /** Whether these are all operators. */
  readonly isComplete: boolean;
  readonly values: Values;
  readonly objects: readonly InstalledObject[];
}

async function install(given: FlagValues, isUpgrade: boolean): Promise<number> {
  const plan = await createPlan(given);
  const output = outputFlag.read(given);
  if (output !== "text") {
    process.stdout.write(
      output === "yaml" ? printObjects(plan.objects) : `${JSON.stringify(listOf(plan.objects), undefined, 2)}\n`,
    );
    return 0;
  }
  const timeoutMs = timeoutFlag.read(given);
  return withCluster(
    given,
    async (client, signal) => {
      if (isUpgrade) await requireInstallation(client, plan, signal);
      return apply(client, plan, { dryRun: dryRunFlag.read(given), timeoutMs, signal });
    },
    { fieldManager: "keelson-install" },
  );
}

async function createPlan(given: FlagValues): Promise<Plan> {
  const all = await loadOperators();
  const operators = selectOperators(given, all);
  const unselected = all
    .filter((operator) => !operators.includes(operator))
    .map(({ name }) => [name, { enabled: false }] as const);
  const namespace = namespaceFlag.read(given);
  const sources = [{ namespace: { create: true } }, ...readValueSources(given), Object.fromEntries(unselected)];
  const values = readValues({ operators: all, version: keelsonVersion(), sources });
  const objects = renderInstallation(installParts(all), { values: values.values, namespace });
  return { namespace, operators, isComplete: operators.length === all.length, values, objects };
}

async function apply(
  client: Client,
  { namespace, operators, isComplete, values, objects }: Plan,
  { dryRun, timeoutMs, signal }: { readonly dryRun: boolean; readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<number> {
  const print = (line: string): void => void process.stdout.write(`${line}\n`);
  const suffix = dryRun ? " (dry run)" : "";
  await applyObjects({
    client,
    objects,
    dryRun,
    signal,
    onResult: ({ kind, metadata }, result) => {
      if (result !== "unchanged") print(`${result.padEnd(10)}  ${kind} ${metadata.name ?? ""}${suffix}`);
    },
  });
  const stale = await findStale({ client, namespace, operators, isComplete, objects, signal });
  if (!dryRun) await prune(client, stale, signal);
  for (const object of stale) print(`${"deleted".padEnd(10)}  ${displayName(object)}${suffix}`);
  if (dryRun) return 0;
  const components = new Set(
    objects.filter(({ kind }) => kind === "Deployment").map(({ metadata }) => componentOf(metadata.labels)),
  );
  if (timeoutMs > 0) {
    const onState = ({
      component,
      ready,
      desired,
      isDone,
    }: {
      component: string;
      ready: number;
      desired: number;
      isDone: boolean;
    }): void => print(`${component.padEnd(10)}  ${isDone ? "ready" : "waiting"}: ${ready} of ${desired} replicas`);
    await waitForRollouts({ client, namespace, components, onState, signal, deadline: AbortSignal.timeout(timeoutMs) });
  }
  const enabled = operators.filter(({ name }) => values.isEnabled(name)).map(({ name }) => name);
  print(`${timeoutMs > 0 ? "ready" : "applied"}: ${enabled.join(", ")} in namespace ${namespace}`);
  return 0;
}

const componentOf = (labels: Readonly<Record<string, string>> | undefined): string =>
  labels?.["app.kubernetes.io/component"] ?? "";

async function requireInstallation(client: Client, { namespace }: Plan, signal: AbortSignal): Promise<void> {
  const { Deployment } = await import("@keelson/api-machinery/kinds");
  const { items } = await client.list(Deployment, { namespace, labelSelector: "app.kubernetes.io/part-of=keelson", signal });
  if (items.length > 0) return;
  throw new InstallError(
    "NotInstalled",
    `Keelson is not installed in namespace ${namespace}: run keelson install --namespace ${namespace}`,
  );
}

const listOf = (items: readonly InstalledObject[]): object => ({ apiVersion: "v1", kind: "List", items });
