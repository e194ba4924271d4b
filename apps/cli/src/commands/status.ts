import { resolve } from "node:path";
import { Node } from "@keelson/api-machinery/kinds";
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
import { renderStatus } from "../status/render-status.ts";
import { watchStatus } from "../status/watch-status.ts";
import { dataDirFlag } from "./local/data-dir-flag.ts";
import type { DefineCommand } from "./commands.ts";

const watchFlag = switchFlag({ name: "watch", short: "w", description: "show every change until Ctrl-C" });

/** Defines `keelson status`. Exits with 1 if a component is not ready. */
export const defineStatusCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [dataDirFlag, onlyFlag, namespaceFlag, watchFlag, outputFlag]) addFlag(command, flag);
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
    const collect = (): Promise<KeelsonStatus> => {
      const current = local === undefined ? undefined : readUpState(dataDir);
      return collectStatus({
        ...{ client, operators, signal, probe, clock: systemClock, namespace: namespaceFlag.read(flags) },
        ...(current === undefined ? {} : { local: current }),
      });
    };
    if (watchFlag.read(flags)) {
      const types = [Node, ...operators.flatMap(({ resources }) => resources)];
      const refresh = createRefresh(flags, collect);
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

/** Redraws a terminal; elsewhere prints each status that differs from the last one. */
function createRefresh(flags: FlagValues, collect: () => Promise<KeelsonStatus>): () => Promise<void> {
  const clear = process.stdout.isTTY ? "\u001b[H\u001b[2J" : "";
  let shown = "";
  return async () => {
    const found = await collect();
    const text = formatResult({ flags }, found, () => renderStatus(found));
    if (text === shown) return;
    const separator = clear === "" && shown !== "" && outputFlag.read(flags) === "text" ? "\n" : "";
    shown = text;
    process.stdout.write(`${clear}${separator}${text}`);
  };
}
