import { isIP } from "node:net";
import { resolve } from "node:path";
import { findConnection } from "@keelson/client";
import { aborted, listenForShutdown } from "@keelson/controller/shutdown";
import { closeInheritedDescriptors } from "@keelson/execution/descriptors";
import {
  type FlagDefinition,
  type FlagValues,
  logLevelFlag,
  portFlag,
  readLogLevel,
  verboseFlag,
  choiceFlag,
  UsageError,
} from "@keelson/operator/flags";
import { addConnectionFlags, addFlag, flagValues } from "../../command-line.ts";
import { createDataFolder } from "../../local/data-folder.ts";
import { evictionFlags, readEvictionFlags } from "../../local/eviction-flags.ts";
import { allowedSysctlsFlag, readAllowedSysctls } from "../../local/sysctls-flag.ts";
import { createLogger } from "../../logger.ts";
import { podCidrFlag, readPodBlock } from "../../node/pod-block.ts";
import { type NodeOptions, startNode } from "../../node/start-node.ts";
import { parseTaint } from "../../node/taint-flag.ts";
import type { DefineCommand } from "../commands.ts";

const portOption = portFlag({ name: "port", description: "port of the kubelet API, 0 for any free port", default: "10250" });

const podRuntimeFlag = choiceFlag({
  name: "pod-runtime",
  value: "RUNTIME",
  choices: ["process", "bubblewrap", "containerd"],
  description:
    "runtime of Pods without a runtimeClassName: bubblewrap, containerd, or process, which gives everyone who may create Pods in the cluster the permissions of this machine's user",
  default: "bubblewrap",
});

const flags: readonly FlagDefinition[] = [
  {
    name: "name",
    value: "NAME",
    description: "name of the Node (default: that of the kubeconfig's user, otherwise the host name)",
  },
  { name: "data-dir", value: "DIR", description: "directory that holds all state of the node", default: ".keelson-node" },
  {
    name: "address",
    value: "IP",
    description: "address of this machine for the cluster and its Pods (default: the one that routes to the API server)",
  },
  portOption,
  podRuntimeFlag,
  podCidrFlag,
  allowedSysctlsFlag,
  ...evictionFlags,
  {
    name: "containerd-address",
    value: "SOCKET",
    description: "containerd socket (default: /run/containerd/containerd.sock if it responds)",
  },
  {
    name: "client-ca-file",
    value: "FILE",
    description:
      "CA certificate that verifies the API server's client certificate (default: the one that the cluster publishes, if the user may read it)",
  },
  { name: "taint", value: "KEY[=VALUE]:EFFECT", description: "taint to set when the Node is created", repeatable: true },
  { ...logLevelFlag, description: "minimum level of log lines on standard error" },
  verboseFlag,
];

/** Defines `keelson node`. */
export const defineNodeCommand: DefineCommand = (command, setExitCode) => {
  addConnectionFlags(command, { traces: false });
  for (const flag of flags) addFlag(command, flag);
  command.action(async () => {
    setExitCode(await runNode(flagValues(command)));
  });
};

async function runNode(values: FlagValues): Promise<number> {
  closeInheritedDescriptors();
  const read = readFlags(values);
  const { transport, ...connection } = await findConnection({
    kubeconfig: textOf(values["kubeconfig"]),
    context: textOf(values["context"]),
  });
  const log = createLogger({ level: readLogLevel(values) });
  const shutdown = listenForShutdown({ faults: { log } });
  try {
    // Files that other users could change would give them the permissions of this one.
    process.umask(process.umask() | 0o022);
    await createDataFolder(read.dataDir);
    const node = await startNode({ ...read, connection: { ...connection, transport }, log, print, signal: shutdown.signal });
    try {
      await aborted(shutdown.signal);
    } finally {
      await node.stop();
    }
    print("stopped; Pods keep running, and the next keelson node adopts them");
    return shutdown.fault === undefined ? 0 : 1;
  } catch (error) {
    if (shutdown.signal.aborted && shutdown.fault === undefined) return 0;
    throw error;
  } finally {
    shutdown.dispose();
  }
}

/** **Errors**: {@link UsageError}. */
function readFlags(values: FlagValues): Omit<NodeOptions, "connection" | "log" | "print" | "signal"> {
  const address = textOf(values["address"]);
  if (address !== undefined && isIP(address) === 0) throw new UsageError(`--address: ${address} is not a valid IP address`);
  const socket = textOf(values["containerd-address"]);
  const taints = values["taint"];
  const authority = textOf(values["client-ca-file"]);
  return {
    dataDir: resolve(String(values["data-dir"])),
    name: textOf(values["name"]),
    address,
    port: portOption.read(values),
    podRuntime: podRuntimeFlag.read(values),
    podBlock: readPodBlock(values),
    allowedUnsafeSysctls: readAllowedSysctls(values),
    eviction: readEvictionFlags(values),
    containerd: socket === undefined ? undefined : resolve(socket),
    clientAuthorityFile: authority === undefined ? undefined : resolve(authority),
    taints: Array.isArray(taints) ? taints.map(parseTaint) : [],
  };
}

const textOf = (value: FlagValues[string]): string | undefined => (typeof value === "string" ? value : undefined);

const print = (line: string): void => void process.stdout.write(`${line}\n`);
