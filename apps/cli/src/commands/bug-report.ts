import { basename, resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { listenForShutdown } from "@keelson/controller";
import { type FlagValues, formatResult, outputFlag } from "@keelson/operator";
import { textFlag } from "@keelson/operator/flags";
import { collectCluster, collectLocal, collectMachine } from "../bug-report/collect-report.ts";
import { ReportFiles } from "../bug-report/report-files.ts";
import { addConnectionFlags, addFlag, flagValues } from "../command-line.ts";
import { connectCluster } from "../connect-cluster.ts";
import { thisMachine } from "../doctor/this-machine.ts";
import { namespaceFlag } from "../install/install-flags.ts";
import { readUpState } from "../local/up-state.ts";
import { loadOperators } from "../operators.ts";
import { probe } from "../status/probe.ts";
import { dataDirFlag } from "./local/data-dir-flag.ts";
import type { DefineCommand } from "./commands.ts";

const fileFlag = textFlag({
  name: "file",
  value: "FILE",
  description: "archive to write, which must not exist (default: keelson-bug-report-TIME.tar.gz)",
});

/** Defines `keelson bug-report`. */
export const defineBugReportCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [fileFlag, dataDirFlag, namespaceFlag, outputFlag]) addFlag(command, flag);
  addConnectionFlags(command);
  command.action(async () => setExitCode(await bugReport(flagValues(command))));
};

async function bugReport(flags: FlagValues): Promise<number> {
  const now = systemClock.now();
  const root = `keelson-bug-report-${new Date(now).toISOString().replace(/[-:]|\.\d+/g, "")}`;
  const file = resolve(fileFlag.read(flags) ?? `${root}.tar.gz`);
  const shutdown = listenForShutdown();
  try {
    const files = await collect(flags, now, shutdown.signal);
    const bytes = await files.write(file, root);
    const result = { file, bytes, files: files.paths, failures: files.failures };
    process.stdout.write(
      formatResult({ flags }, result, () => {
        const missing = files.failures.map(({ path, message }) => `  ${path}: ${message}\n`);
        return [
          `wrote ${basename(file)}: ${files.paths.length} files, ${Math.ceil(bytes / 1_024)} KiB\n`,
          ...(missing.length > 0 ? ["could not read:\n", ...missing] : []),
          "Values of variables, Secrets and credentials were removed. Names, addresses, commands and images were not:\n",
          "read the archive before you share it.\n",
        ].join("");
      }),
    );
    return 0;
  } catch (error) {
    if (error === shutdown.signal.reason) return 130;
    if (error instanceof Error && "code" in error && error.code === "EEXIST") throw new Error(`${file} exists: set --file`);
    throw error;
  } finally {
    shutdown.dispose();
  }
}

async function collect(flags: FlagValues, now: number, signal: AbortSignal): Promise<ReportFiles> {
  const dataDir = resolve(dataDirFlag.read(flags));
  const isElsewhere = flags["kubeconfig"] !== undefined || flags["context"] !== undefined;
  const local = isElsewhere ? undefined : readUpState(dataDir);
  const files = new ReportFiles(signal);
  await collectMachine(files, thisMachine, now);
  if (!isElsewhere) await collectLocal(files, dataDir, local);
  await files.add("cluster.json", async () => {
    const connection = local === undefined ? flags : { ...flags, kubeconfig: resolve(dataDir, "kubeconfig") };
    const client = await connectCluster(connection);
    try {
      const operators = await loadOperators();
      const namespace = namespaceFlag.read(flags);
      await collectCluster(files, {
        ...{ client, operators, signal, probe, clock: systemClock, namespace },
        ...(local === undefined ? {} : { local }),
      });
    } finally {
      await client.close();
    }
    return { kind: local === undefined ? "cluster" : "keelson up", namespace: namespaceFlag.read(flags) };
  });
  return files;
}
