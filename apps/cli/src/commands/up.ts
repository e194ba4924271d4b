import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { aborted, listenForShutdown } from "@keelson/controller";
import type { Operator } from "@keelson/operator";
import { logLevelFlag, portFlag, UsageError } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../command-line.ts";
import { ownComponents, withDependencies } from "../local/components.ts";
import { createDataFolder } from "../local/data-folder.ts";
import { podRuntimeFlag } from "../local/pod-runtime.ts";
import { startLocal } from "../local/start-local.ts";
import { createLogger } from "../logger.ts";
import { loadOperators } from "../operators.ts";
import type { DefineCommand } from "./commands.ts";
import { parseNames } from "./only.ts";

const apiPortFlag = portFlag({ name: "api-port", description: "port of the API server, 0 for any free port", default: "6443" });
const metricsPortFlag = portFlag({
  name: "metrics-port",
  description: "port of /metrics, /healthz, /readyz and /debug/reconciles on 127.0.0.1, 0 for any free port, or off",
  default: "0",
});

/** Defines `keelson up`. */
export const defineUpCommand: DefineCommand = async (command, setExitCode) => {
  const operators = await loadOperators();
  const names = [...ownComponents, ...operators.map((operator) => operator.name)];
  addFlag(command, {
    name: "data-dir",
    value: "DIR",
    description: "directory that holds all state",
    default: ".keelson",
    env: "KEELSON_DATA_DIR",
  });
  addFlag(command, apiPortFlag);
  addFlag(command, metricsPortFlag);
  addFlag(command, { name: "bind-address", value: "IP", description: "address of the API server", default: "127.0.0.1" });
  addFlag(command, {
    name: "only",
    value: "NAMES",
    description: `components to run: ${names.join(",")} (default: all; the API server always runs)`,
  });
  addFlag(command, { ...logLevelFlag, description: "minimum level of log lines in DIR/keelson.log" });
  addFlag(command, {
    name: "containerd-address",
    value: "SOCKET",
    description:
      "containerd socket for Pods with runtimeClassName containerd (default: /run/containerd/containerd.sock if it responds)",
  });
  addFlag(command, podRuntimeFlag);
  addFlag(command, { name: "tour", description: "then run one workload per operator and show its progress" });
  addFlag(command, { name: "exit", description: "with --tour: stop after the tour; exit with status 1 if a workload failed" });
  for (const operator of operators) {
    for (const flag of operator.servers.flatMap((server) => server.flags ?? [])) addFlag(command, flag);
  }
  command.action(async () => {
    const defaulted = new Set(
      command.options
        .filter((option) => command.getOptionValueSource(option.attributeName()) === "default")
        .map((option) => option.name()),
    );
    setExitCode(await up(flagValues(command), defaulted, names, operators));
  });
};

async function up(
  flags: ReturnType<typeof flagValues>,
  defaulted: ReadonlySet<string>,
  names: readonly string[],
  operators: readonly Operator[],
): Promise<number> {
  const level = logLevelFlag.read(flags);
  if (flags.exit && !flags.tour) throw new UsageError("--exit: requires --tour");
  const apiPort = apiPortFlag.read(flags);
  const metricsPort = flags["metrics-port"] === "off" ? undefined : metricsPortFlag.read(flags);
  const chosen = withDependencies(flags.only === undefined ? new Set(names) : parseNames("--only", String(flags.only), names));
  const dataDir = resolve(String(flags["data-dir"]));
  const print = (line: string): void => void process.stdout.write(`${line}\n`);
  // Files that other users could change would give them the rights of this one.
  process.umask(process.umask() | 0o022);
  await createDataFolder(dataDir);
  const log = createLogger({ level, file: resolve(dataDir, "keelson.log") });
  const shutdown = listenForShutdown({ faults: { log } });
  try {
    const local = await startLocal({
      dataDir,
      bindAddress: String(flags["bind-address"]),
      apiPort,
      metricsPort,
      // The tour may fall back to a free port if a default port is in use.
      mayMovePorts: flags.tour === true ? defaulted : new Set(),
      operators: operators.map(({ name }) => name).filter((name) => chosen.has(name)),
      hasCluster: chosen.has("cluster"),
      containerd: typeof flags["containerd-address"] === "string" ? resolve(flags["containerd-address"]) : undefined,
      podRuntime: podRuntimeFlag.read(flags),
      flags,
      clock: systemClock,
      log,
      logLevel: level,
      signal: shutdown.signal,
      onComponent: (name, description) => print(`${name.padEnd(10)}  ${description}`),
      onRestart: (line) => void process.stderr.write(`${line}\n`),
    });
    try {
      print("ready");
      if (!flags.tour) {
        print(`\nexport KUBECONFIG=${local.kubeconfig}`);
        await aborted(shutdown.signal);
        return shutdown.fault === undefined ? 0 : 1;
      }
      const { runTour } = await import("../tour/tour.ts");
      const succeeded = await runTour({
        local,
        families: [...chosen],
        clock: systemClock,
        out: process.stdout,
        signal: shutdown.signal,
        keepRunning: flags.exit !== true,
      });
      return succeeded ? 0 : 1;
    } finally {
      if (shutdown.signal.aborted) print("\nstopping ...");
      await local.stop();
    }
  } catch (error) {
    // Ctrl-C during start-up: the pending step rejects with the signal's reason.
    if (shutdown.signal.aborted && error === shutdown.signal.reason && shutdown.fault === undefined) return 130;
    throw error;
  } finally {
    shutdown.dispose();
  }
}
