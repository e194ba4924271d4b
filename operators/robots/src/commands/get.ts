import type { DeepReadonly } from "@keelson/api-machinery";
import {
  allNamespacesFlag,
  type CommandDefinition,
  formatObjects,
  type OutputFormat,
  renderTable,
  selectorFlag,
  wideOutputFlag,
} from "@keelson/operator";
import { Robot } from "../api/robot.ts";
import { formatBytes } from "../placement/resource-request.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots get [ROBOT ...]`. */
export const getCommand: CommandDefinition = {
  name: "get",
  description: "print robots with what their agents report",
  args: ["[ROBOTS...]"],
  flags: [namespaceFlag, allNamespacesFlag, selectorFlag, wideOutputFlag],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const isAll = allNamespacesFlag.read(flags);
    const namespace = isAll ? undefined : namespaceFlag.read(flags);
    const where = isAll ? "" : ` in namespace ${namespace}`;
    const client = await connect();
    try {
      const { items } = await client.list(Robot, { namespace, labelSelector: selectorFlag.read(flags), signal });
      const missing = args.filter((name) => !items.some(({ metadata }) => metadata.name === name));
      const found = args.length === 0 ? items : items.filter(({ metadata }) => args.includes(metadata.name ?? ""));
      const format = wideOutputFlag.read(flags);
      const isSingle = args.length === 1 && !isAll;
      if (found.length > 0 || (args.length === 0 && format.kind !== "table" && format.kind !== "wide")) {
        stdout.write(formatRobots(found, format, { isSingle, withNamespace: isAll }));
      } else if (args.length === 0) stdout.write(`No robots${where}; start an agent: keelson robots agent --help\n`);
      for (const name of missing) {
        const list = isAll ? "keelson robots list -A" : `keelson robots list -n ${namespace}`;
        stderr.write(`robot ${name} not found${where}; list robots: ${list}\n`);
      }
      return missing.length === 0 ? 0 : 1;
    } finally {
      await client.close();
    }
  },
};

/** Robots in one of the formats of the command. */
export function formatRobots(
  robots: readonly DeepReadonly<Robot>[],
  format: OutputFormat,
  { isSingle, withNamespace = false }: { readonly isSingle: boolean; readonly withNamespace?: boolean },
): string {
  const table = (): string => {
    const isWide = format.kind === "wide";
    const rows = robots.map((robot) => [
      ...(withNamespace ? [robot.metadata.namespace ?? ""] : []),
      ...columnsOf(robot),
      ...(isWide ? wideColumnsOf(robot) : []),
    ]);
    return renderTable([[...(withNamespace ? ["NAMESPACE"] : []), ...columns, ...(isWide ? wideColumns : [])], ...rows]);
  };
  const objects = robots.map((object) => ({ type: Robot, object }));
  return formatObjects(format, objects, { table, isSingle });
}

const columns = ["NAME", "PHASE", "HOSTNAME", "OS", "CPUS", "MEMORY", "LAST HEARTBEAT"];
const wideColumns = ["ARCH", "KERNEL", "ADDRESS", "DRIVERS", "MESSAGE"];

function columnsOf({ metadata, status }: DeepReadonly<Robot>): readonly string[] {
  const { hostname, platform, cpu, memory } = status?.deviceInfo ?? {};
  return [
    metadata.name ?? "",
    status?.phase ?? "Pending",
    hostname ?? "-",
    platform?.os ?? "-",
    cpu?.logicalCores?.toString() ?? "-",
    memory?.total === undefined ? "-" : formatBytes(memory.total),
    status?.lastHeartbeatTime ?? "-",
  ];
}

function wideColumnsOf({ status }: DeepReadonly<Robot>): readonly string[] {
  const { platform, networkInterfaces } = status?.deviceInfo ?? {};
  return [
    platform?.arch ?? "-",
    platform?.kernelVersion ?? "-",
    networkInterfaces?.flatMap(({ addresses }) => addresses ?? [])[0] ?? "-",
    status?.drivers?.join(",") ?? "-",
    status?.message ?? "-",
  ];
}
