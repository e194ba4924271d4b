import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { type FlagValues, formatResult, outputFlag } from "@keelson/operator";
import { addConnectionFlags, addFlag, flagValues } from "../command-line.ts";
import { withCluster } from "../install/cluster/with-cluster.ts";
import { namespaceFlag, onlyFlag, selectOperators } from "../install/install-flags.ts";
import { readUpState } from "../local/up-state.ts";
import { loadOperators } from "../operators.ts";
import { collectStatus } from "../status/collect-status.ts";
import { renderStatus } from "../status/render-status.ts";
import { dataDirFlag } from "./data-dir-flag.ts";
import type { DefineCommand } from "./commands.ts";

const probeTimeoutMs = 5_000;

/** Defines `keelson status`. Exits with 1 if a component is not ready. */
export const defineStatusCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [dataDirFlag, onlyFlag, namespaceFlag, outputFlag]) addFlag(command, flag);
  addConnectionFlags(command);
  command.action(async () => setExitCode(await status(flagValues(command))));
};

async function status(flags: FlagValues): Promise<number> {
  const dataDir = resolve(dataDirFlag.read(flags));
  const isElsewhere = flags["kubeconfig"] !== undefined || flags["context"] !== undefined;
  const local = isElsewhere ? undefined : readUpState(dataDir);
  const connection = local === undefined ? flags : { ...flags, kubeconfig: resolve(dataDir, "kubeconfig") };
  const operators = selectOperators(flags, await loadOperators());
  return withCluster(connection, async (client, signal) => {
    const found = await collectStatus({
      ...{ client, operators, signal, probe, clock: systemClock, namespace: namespaceFlag.read(flags) },
      ...(local === undefined ? {} : { local }),
    });
    process.stdout.write(formatResult({ flags }, found, () => renderStatus(found)));
    const isDown = found.components.some(({ name, state }) => name === "apiserver" && state !== "ready");
    if (isDown && local === undefined && !isElsewhere) process.stderr.write(`keelson up does not run in ${dataDir}\n`);
    return found.components.some(({ state }) => state === "not ready") ? 1 : 0;
  });
}

async function probe(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(probeTimeoutMs) });
    if (response.ok) return undefined;
    const failed = (await response.text()).split("\n").filter((line) => line.startsWith("[-]"));
    return failed.length === 0 ? `${url}: status ${response.status}` : failed.map((line) => line.slice(3)).join(", ");
  } catch (error) {
    return `${url}: ${error instanceof Error ? error.message : String(error)}`;
  }
}
