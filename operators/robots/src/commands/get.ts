import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, renderTable } from "@keelson/operator";
import { choiceFlag } from "@keelson/operator/flags";
import { Robot } from "../api/robot.ts";
import { formatBytes } from "../placement/resource-request.ts";
import { namespaceFlag } from "./flags.ts";

const formatFlag = choiceFlag({
  name: "output",
  short: "o",
  value: "FORMAT",
  description: "output format",
  choices: ["text", "wide", "json", "yaml", "name"],
  default: "text",
});

/** `keelson robots get [ROBOT ...]`. */
export const getCommand: CommandDefinition = {
  name: "get",
  description: "print robots with what their agents report",
  args: ["[ROBOTS...]"],
  flags: [namespaceFlag, formatFlag],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const namespace = namespaceFlag.read(flags);
    const client = await connect();
    try {
      const { items } = await client.list(Robot, { namespace, signal });
      const missing = args.filter((name) => !items.some(({ metadata }) => metadata.name === name));
      const found = args.length === 0 ? items : items.filter(({ metadata }) => args.includes(metadata.name ?? ""));
      if (found.length > 0) stdout.write(await formatRobots(found, formatFlag.read(flags)));
      for (const name of missing) {
        stderr.write(`robot ${name} not found in namespace ${namespace}; list robots: keelson robots list -n ${namespace}\n`);
      }
      return missing.length === 0 ? 0 : 1;
    } finally {
      await client.close();
    }
  },
};

/** Robots in one of the formats of the command. */
export async function formatRobots(
  robots: readonly DeepReadonly<Robot>[],
  format: "text" | "wide" | "json" | "yaml" | "name",
): Promise<string> {
  const content = robots.length === 1 ? robots[0] : { apiVersion: "v1", kind: "List", items: robots };
  switch (format) {
    case "json":
      return `${JSON.stringify(content, undefined, 2)}\n`;
    case "yaml": {
      const { stringify } = await import("yaml");
      return stringify(content);
    }
    case "name":
      return robots.map(({ metadata }) => `robot.robot.k8s4r.io/${metadata.name ?? ""}\n`).join("");
    default: {
      const isWide = format === "wide";
      const rows = robots.map((robot) => [...columnsOf(robot), ...(isWide ? wideColumnsOf(robot) : [])]);
      return renderTable([[...columns, ...(isWide ? wideColumns : [])], ...rows]);
    }
  }
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
