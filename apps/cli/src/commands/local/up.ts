import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { aborted, listenForShutdown, type Shutdown } from "@keelson/controller/shutdown";
import { closeInheritedDescriptors } from "@keelson/execution/descriptors";
import {
  type FlagDefinition,
  type FlagValues,
  logLevelFlag,
  portFlag,
  readLogLevel,
  switchFlag,
  UsageError,
  verboseFlag,
} from "@keelson/operator/flags";
import { addFlag, flagValues } from "../../command-line.ts";
import { auditFlags, readAuditFlags } from "../../local/audit-flags.ts";
import { ownComponents, withDependencies } from "../../local/components.ts";
import { createDataFolder } from "../../local/data-folder.ts";
import { readyLine, readyReporter, startDetached } from "../../local/detach.ts";
import { terminatedPodThresholdFlag } from "../../local/pod-gc-flag.ts";
import { readPodNetwork, podNetworkFlag } from "../../local/pod-network-flag.ts";
import { podRuntimeFlag } from "../../local/pod-runtime-flag.ts";
import { evictionFlags, readEvictionFlags } from "../../local/eviction-flags.ts";
import { allowedSysctlsFlag, readAllowedSysctls } from "../../local/sysctls-flag.ts";
import { type Local, type LocalOptions, startLocal } from "../../local/start-local.ts";
import { writeUpState } from "../../local/up-state.ts";
import { createLogger } from "../../logger.ts";
import { loadOperatorFlags, operatorEntries } from "../../operators.ts";
import type { DefineCommand } from "../commands.ts";
import { parseNames } from "../only.ts";

const apiPortFlag = portFlag({ name: "api-port", description: "port of the API server, 0 for any free port", default: "6443" });
const metricsPortFlag = portFlag({
  name: "metrics-port",
  description: "port of /metrics, /healthz, /readyz and /debug/reconciles on 127.0.0.1, 0 for any free port, or off",
  default: "0",
});

const detachFlag = switchFlag({
  name: "detach",
  short: "d",
  description: "return once everything is ready; keelson down stops it",
});

/** The components that `--only` accepts, in starting order. */
const componentNames: readonly string[] = [...ownComponents, ...operatorEntries.map(({ name }) => name)];

/** Defines `keelson up`. */
export const defineUpCommand: DefineCommand = async (command, setExitCode) => {
  const operatorFlags = await loadOperatorFlags();
  for (const flag of [...ownFlags, ...operatorFlags]) addFlag(command, flag);
  command.action(async () => {
    const defaulted = new Set(
      command.options
        .filter((option) => command.getOptionValueSource(option.attributeName()) === "default")
        .map((option) => option.name()),
    );
    const flags = flagValues(command);
    const options = readOptions(flags, defaulted, operatorFlags);
    setExitCode(detachFlag.read(flags) ? await upDetached(options.local.dataDir) : await up(options));
  });
};

const ownFlags: readonly FlagDefinition[] = [
  {
    name: "data-dir",
    value: "DIR",
    description: "directory that holds all state",
    default: ".keelson",
    env: "KEELSON_DATA_DIR",
  },
  apiPortFlag,
  metricsPortFlag,
  { name: "bind-address", value: "IP", description: "address of the API server", default: "127.0.0.1" },
  {
    name: "only",
    value: "NAMES",
    description: `components to run: ${componentNames.join(",")} (default: all; the API server always runs)`,
  },
  { ...logLevelFlag, description: "minimum level of log lines in DIR/keelson.log" },
  verboseFlag,
  {
    name: "containerd-address",
    value: "SOCKET",
    description:
      "containerd socket for Pods with runtimeClassName containerd (default: /run/containerd/containerd.sock if it responds)",
  },
  podRuntimeFlag,
  podNetworkFlag,
  allowedSysctlsFlag,
  ...evictionFlags,
  terminatedPodThresholdFlag,
  ...auditFlags,
  { name: "tour", description: "after the start, run one workload per operator and show its progress" },
  detachFlag,
  { name: "exit", description: "with --tour: stop after the tour; exit with status 1 if a workload failed" },
];

type LogLevel = ReturnType<typeof logLevelFlag.read>;

interface UpOptions {
  readonly local: Omit<LocalOptions, "clock" | "log" | "signal" | "onComponent" | "onRestart">;
  readonly logLevel: LogLevel;
  /** Names of the components and operators to run. */
  readonly components: ReadonlySet<string>;
  readonly tour: "none" | "keep-running" | "exit";
}

/** `defaulted` names the flags that were not passed. */
function readOptions(flags: FlagValues, defaulted: ReadonlySet<string>, operatorFlags: readonly FlagDefinition[]): UpOptions {
  if (flags["exit"] && !flags["tour"]) throw new UsageError("--exit: requires --tour");
  if (flags["tour"] && detachFlag.read(flags)) throw new UsageError("--detach: must not be combined with --tour");
  const components = withDependencies(
    flags["only"] === undefined ? new Set(componentNames) : parseNames("--only", String(flags["only"]), componentNames),
  );
  const logLevel = readLogLevel(flags);
  return {
    logLevel,
    components,
    tour: flags["tour"] !== true ? "none" : flags["exit"] === true ? "exit" : "keep-running",
    local: {
      dataDir: resolve(String(flags["data-dir"])),
      bindAddress: String(flags["bind-address"]),
      apiPort: apiPortFlag.read(flags),
      metricsPort: flags["metrics-port"] === "off" ? undefined : metricsPortFlag.read(flags),
      // The tour may fall back to a free port if a default port is in use.
      mayMovePorts: flags["tour"] === true ? defaulted : new Set(),
      operators: operatorEntries.map(({ name }) => name).filter((name) => components.has(name)),
      operatorFlags,
      hasCluster: components.has("cluster"),
      containerd: typeof flags["containerd-address"] === "string" ? resolve(flags["containerd-address"]) : undefined,
      podRuntime: podRuntimeFlag.read(flags),
      podNetworkKind: readPodNetwork(flags),
      allowedUnsafeSysctls: readAllowedSysctls(flags),
      eviction: readEvictionFlags(flags),
      terminatedPodThreshold: terminatedPodThresholdFlag.read(flags),
      audit: readAuditFlags(flags),
      flags,
      logLevel,
    },
  };
}

/** Starts `keelson up` with the same arguments in the background. */
async function upDetached(dataDir: string): Promise<number> {
  await createDataFolder(dataDir);
  const shutdown = listenForShutdown();
  try {
    const started = await startDetached({ dataDir, args: process.argv.slice(2), signal: shutdown.signal, print });
    if (started.kind === "failed") {
      process.stderr.write(started.output);
      return started.exitCode;
    }
    print(`running as process ${started.pid}; keelson down stops it\n\nexport KUBECONFIG=${resolve(dataDir, "kubeconfig")}`);
    return 0;
  } finally {
    shutdown.dispose();
  }
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);

async function up(options: UpOptions): Promise<number> {
  const { dataDir } = options.local;
  closeInheritedDescriptors();
  // Files that other users could change would give them the permissions of this one.
  process.umask(process.umask() | 0o022);
  const reportReady = readyReporter();
  await createDataFolder(dataDir);
  const log = createLogger({ level: options.logLevel, file: resolve(dataDir, "keelson.log") });
  const shutdown = listenForShutdown({ faults: { log } });
  const components: { readonly name: string; readonly description: string }[] = [];
  try {
    const local = await startLocal({
      ...options.local,
      clock: systemClock,
      log,
      signal: shutdown.signal,
      onComponent: (name, description) => {
        components.push({ name, description });
        print(`${name.padEnd(10)}  ${description}`);
      },
      onRestart: (line) => void process.stderr.write(`${line}\n`),
    });
    try {
      writeUpState(
        dataDir,
        {
          ...{ pid: process.pid, startedAt: systemClock.now(), components },
          ...{ operators: options.local.operators, endpoints: local.endpoints },
        },
        (error) => log.warn({ err: error }, "could not write up.json; keelson status shows less"),
      );
      print(readyLine);
      reportReady();
      return options.tour === "none" ? await keepRunning(local, shutdown) : await tour(local, options, shutdown);
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

async function keepRunning(local: Local, shutdown: Shutdown): Promise<number> {
  print(`\nexport KUBECONFIG=${local.kubeconfig}`);
  await aborted(shutdown.signal);
  return shutdown.fault === undefined ? 0 : 1;
}

async function tour(local: Local, options: UpOptions, shutdown: Shutdown): Promise<number> {
  const { runTour } = await import("../../tour/tour.ts");
  const succeeded = await runTour({
    local,
    client: await local.openClient(),
    families: [...options.components],
    clock: systemClock,
    out: process.stdout,
    signal: shutdown.signal,
    keepRunning: options.tour === "keep-running",
  });
  return succeeded ? 0 : 1;
}
