import { once } from "node:events";
import { toJson } from "@bufbuild/protobuf";
import {
  allNamespacesFlag,
  type CommandDefinition,
  formatResult,
  outputFlag,
  renderTable,
  selectorFlag,
} from "@keelson/operator";
import { countFlag, switchFlag } from "@keelson/operator/flags";
import { type UsageInfo, UsageReportSchema, type UsageReport } from "@keelson/sandbox/protocol";
import { connectionFlags, runWith } from "./connection.ts";

const watchFlag = switchFlag({ name: "watch", short: "w", description: "repeat the measurement until Ctrl-C" });
const intervalFlag = countFlag({
  name: "interval",
  value: "SECONDS",
  description: "with --watch: seconds between two measurements (default: 5)",
  max: 3600,
});

const defaultIntervalSeconds = 5;

/** `keelson sandbox top`. */
export const topCommand: CommandDefinition = {
  name: "top",
  description:
    "show the CPU time, memory, processes and disk space that sandboxes use, of their limits, and their denied flows",
  args: ["[NAMES...]"],
  flags: [...connectionFlags, allNamespacesFlag, selectorFlag, watchFlag, intervalFlag, outputFlag],
  run: (context) =>
    runWith(context, async ({ usage, namespace }) => {
      const { args, flags, stdout, signal } = context;
      const isWatch = watchFlag.read(flags);
      const isJson = outputFlag.read(flags).kind === "json";
      const allNamespaces = allNamespacesFlag.read(flags);
      const intervalSeconds = isWatch ? (intervalFlag.read(flags) ?? defaultIntervalSeconds) : 0;
      const labelSelector = selectorFlag.read(flags) ?? "";
      const missing = new Set(args);
      let isFirst = true;
      for await (const report of usage.watchUsage({ namespace, allNamespaces, labelSelector, intervalSeconds }, { signal })) {
        const items = report.items.filter(({ sandboxName }) => args.length === 0 || args.includes(sandboxName));
        for (const { sandboxName } of items) missing.delete(sandboxName);
        const shown = { ...report, items };
        const text =
          isWatch && isJson
            ? `${JSON.stringify(toJson(UsageReportSchema, shown))}\n`
            : formatResult(context, toJson(UsageReportSchema, shown), () => describe(shown, namespace, allNamespaces));
        // What is missing is reported below.
        if (args.length > 0 && items.length === 0 && !isJson) continue;
        if (!stdout.write(isFirst || isJson ? text : `\n${text}`)) await once(stdout, "drain");
        isFirst = false;
      }
      for (const name of missing) context.stderr.write(`sandbox ${namespace}/${name} not found\n`);
      return missing.size === 0 ? 0 : 1;
    }),
};

function describe({ items }: UsageReport, namespace: string, isAll: boolean): string {
  if (items.length === 0) return isAll ? "No sandboxes\n" : `No sandboxes in namespace ${namespace}\n`;
  const heading = ["NAME", "PHASE", "CPU", "MEMORY", "PROCESSES", "DISK", "DENIED", "AGENT"];
  const rows = items.map((item) => [...(isAll ? [item.namespace] : []), ...cellsOf(item)]);
  return renderTable([[...(isAll ? ["NAMESPACE"] : []), ...heading], ...rows]);
}

function cellsOf({ sandboxName, phase, measured, deniedFlows, agentPod }: UsageInfo): readonly string[] {
  const use = (value: bigint | undefined, limit: bigint | undefined, format: (amount: bigint) => string): string =>
    value === undefined ? "-" : limit === undefined || limit === 0n ? format(value) : `${format(value)}/${format(limit)}`;
  return [
    ...[sandboxName, phase],
    use(measured?.cpuMillis, measured?.cpuLimitMillis, (millis) => `${millis}m`),
    use(measured?.memoryBytes, measured?.memoryLimitBytes, mebibytes),
    use(measured?.processes, measured?.processLimit, String),
    use(measured?.diskBytes, measured?.diskLimitBytes, mebibytes),
    ...[String(deniedFlows), agentPod || "-"],
  ];
}

/** Rounded up, so that only nothing is 0. */
const mebibytes = (bytes: bigint): string => `${(bytes + 1_048_575n) / 1_048_576n}Mi`;
