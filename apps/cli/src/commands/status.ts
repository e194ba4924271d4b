import { resolve } from "node:path";
import { Node, Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { type FlagValues, formatResult, outputFlag } from "@keelson/operator";
import { switchFlag } from "@keelson/operator/flags";
import { addConnectionFlags, addFlag, flagValues } from "../command-line.ts";
import { withCluster } from "../install/cluster/with-cluster.ts";
import { namespaceFlag, onlyFlag, selectOperators } from "../install/install-flags.ts";
import { readUpState } from "../local/up-state.ts";
import { loadOperators } from "../operators.ts";
import { createLogger } from "../logger.ts";
import { collectStatus, type KeelsonStatus } from "../status/collect-status.ts";
import { probe } from "../status/probe.ts";
import { findWorkload, notFoundText, type NamedWorkloadOptions } from "../status/named-workload.ts";
import { renderStatus, renderWorkload } from "../status/render-status.ts";
import { watchStatus } from "../status/watch-status.ts";
import { dataDirFlag } from "./local/data-dir-flag.ts";
import type { DefineCommand } from "./commands.ts";

const watchFlag = switchFlag({ name: "watch", short: "w", description: "show every change until Ctrl-C" });

/** Defines `keelson status`. Exits with 1 if a component is not ready, or if the workload does not exist or needs attention. */
export const defineStatusCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [dataDirFlag, onlyFlag, namespaceFlag, watchFlag, outputFlag]) addFlag(command, flag);
  addConnectionFlags(command);
  command.argument(
    "[WORKLOAD]",
    "show one workload, the objects it owns and its events: KIND/NAME or KIND/NAMESPACE/NAME, such as app/cache",
  );
  command.action(async (workload: string | undefined) => setExitCode(await status(flagValues(command), workload)));
};

async function status(flags: FlagValues, workload: string | undefined): Promise<number> {
  const dataDir = resolve(dataDirFlag.read(flags));
  const isElsewhere = flags["kubeconfig"] !== undefined || flags["context"] !== undefined;
  const local = isElsewhere ? undefined : readUpState(dataDir);
  const connection = local === undefined ? flags : { ...flags, kubeconfig: resolve(dataDir, "kubeconfig") };
  const operators = selectOperators(flags, await loadOperators());
  return withCluster(connection, async (client, signal) => {
    if (workload !== undefined) return workloadStatus(flags, workload, { client, operators, signal, clock: systemClock });
    const collect = (): Promise<KeelsonStatus> => {
      const current = local === undefined ? undefined : readUpState(dataDir);
      return collectStatus({
        ...{ client, operators, signal, probe, clock: systemClock, namespace: namespaceFlag.read(flags) },
        ...(current === undefined ? {} : { local: current }),
      });
    };
    if (watchFlag.read(flags)) {
      const types = [Node, ...operators.flatMap(({ resources }) => resources)];
      const refresh = createRefresh(flags, async () => {
        const found = await collect();
        return formatResult({ flags }, found, () => renderStatus(found));
      });
      const log = createLogger({ level: "silent" });
      await watchStatus({ client, types, log, refresh, signal, clock: systemClock, random: Math.random });
      return 0;
    }
    const found = await collect();
    process.stdout.write(formatResult({ flags }, found, () => renderStatus(found)));
    const isDown = found.components.some(({ name, state }) => name === "apiserver" && state !== "ready");
    if (isDown && local === undefined && !isElsewhere) process.stderr.write(`keelson up does not run in ${dataDir}\n`);
    return found.components.some(({ state }) => state === "not ready") ? 1 : 0;
  });
}

async function workloadStatus(flags: FlagValues, reference: string, options: NamedWorkloadOptions): Promise<number> {
  const { client, clock, operators, signal } = options;
  if (watchFlag.read(flags)) {
    let wasMissing = false;
    const refresh = createRefresh(flags, async () => {
      const found = await findWorkload(reference, options);
      const isNew = !wasMissing;
      wasMissing = found === undefined;
      if (found !== undefined) return formatResult({ flags }, found, () => renderWorkload(found));
      const text = `${notFoundText(reference, operators)}\n`;
      if (outputFlag.read(flags).kind === "table") return text;
      if (isNew) process.stderr.write(text);
      return "";
    });
    const types = [Pod, ...operators.flatMap(({ resources }) => resources)];
    await watchStatus({ client, types, log: createLogger({ level: "silent" }), refresh, signal, clock, random: Math.random });
    return 0;
  }
  const found = await findWorkload(reference, options);
  if (found === undefined) {
    process.stderr.write(`${notFoundText(reference, operators)}\n`);
    return 1;
  }
  process.stdout.write(formatResult({ flags }, found, () => renderWorkload(found)));
  return found.workload.needsAttention ? 1 : 0;
}

/** Redraws a terminal; elsewhere prints each text that differs from the last one. */
function createRefresh(flags: FlagValues, render: () => Promise<string>): () => Promise<void> {
  const clear = process.stdout.isTTY ? "\u001b[H\u001b[2J" : "";
  let shown = "";
  return async () => {
    const text = await render();
    if (text === shown) return;
    const separator = clear === "" && shown !== "" && outputFlag.read(flags).kind === "table" ? "\n" : "";
    shown = text;
    process.stdout.write(`${clear}${separator}${text}`);
  };
}
