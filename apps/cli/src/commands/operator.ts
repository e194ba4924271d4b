import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { createClient, createHttpTransport, findConnection } from "@keelson/client";
import { aborted, createPrometheusMetrics, listenForShutdown } from "@keelson/controller";
import { leaseNameOf, type Operator, type RunningOperator, startOperator } from "@keelson/operator";
import type { Command } from "commander";
import { addFlag, flagValues, UsageError } from "../command-line.ts";
import { systemNamespace } from "../local/operator-access.ts";
import { createLogger, isLogLevel } from "../logger.ts";
import { type BindAddress, parseBindAddress, type Probes, startProbes } from "../probe-addresses.ts";
import { LeadershipReport } from "./leadership-report.ts";
import { selectOperators } from "./only.ts";

/** Adds `keelson operator`: runs controllers against the cluster of a kubeconfig, or the one it runs in. */
export function addOperatorCommand(
  program: Command,
  operators: readonly Operator[],
  setExitCode: (code: number) => void,
): void {
  const command = program
    .command("operator")
    .description("run the controllers of some families against a cluster, with leader election; the CRDs must be there")
    .exitOverride();
  addFlag(command, {
    name: "only",
    value: "NAMES",
    description: `families to run, of ${names(operators)}`,
    default: names(operators),
  });
  addFlag(command, {
    name: "kubeconfig",
    value: "FILE",
    description: "default: $KUBECONFIG, ~/.kube/config, or the service account of a Pod",
  });
  addFlag(command, { name: "context", value: "NAME", description: "context of the kubeconfig (default: its current one)" });
  addFlag(command, {
    name: "namespace",
    value: "NAME",
    description: "namespace of the leases; it must be there",
    default: systemNamespace,
  });
  addFlag(command, {
    name: "metrics-bind-address",
    value: "ADDRESS",
    description: "where /metrics and /debug/reconciles are served: IP:PORT, :PORT for every address, 0 for nowhere",
    default: "127.0.0.1:8080",
  });
  addFlag(command, {
    name: "metrics-token-file",
    value: "FILE",
    description:
      "file with the bearer token that they ask for; without it, unless the address is loopback, the API server is asked who may",
  });
  addFlag(command, {
    name: "health-probe-bind-address",
    value: "ADDRESS",
    description: "where /healthz and /readyz are served",
    default: "127.0.0.1:8081",
  });
  addFlag(command, {
    name: "data-dir",
    value: "DIR",
    description: "where servers keep their files",
    default: ".keelson/operator",
  });
  addFlag(command, { name: "log-level", value: "LEVEL", description: "debug, info, warn, error or silent", default: "info" });
  for (const operator of operators) {
    for (const flag of operator.servers.flatMap((server) => server.flags ?? [])) addFlag(command, flag);
  }
  command.action(async () => {
    setExitCode(await runOperators(flagValues(command), operators));
  });
}

async function runOperators(flags: ReturnType<typeof flagValues>, operators: readonly Operator[]): Promise<number> {
  const level = String(flags["log-level"]);
  if (!isLogLevel(level))
    throw new UsageError(`--log-level: ${JSON.stringify(level)} is none of debug, info, warn, error, silent`);
  const addressOf = (flag: string): BindAddress | undefined => parseBindAddress(`--${flag}`, String(flags[flag]));
  const metricsAddress = addressOf("metrics-bind-address");
  const probeAddress = addressOf("health-probe-bind-address");
  const selected = selectOperators(String(flags.only), operators);
  const print = (line: string): void => void process.stdout.write(`${line}\n`);
  const log = createLogger({ level });
  const shutdown = listenForShutdown({ faults: { log } });
  const metrics = await createPrometheusMetrics({ processFigures: true });
  const { transport } = await findConnection({
    ...(typeof flags.kubeconfig === "string" ? { kubeconfig: flags.kubeconfig } : {}),
    ...(typeof flags.context === "string" ? { context: flags.context } : {}),
  });
  const client = createClient({
    transport: metrics.measured(createHttpTransport(transport), new URL(transport.server).host),
    fieldManager: "keelson",
  });
  const running: RunningOperator[] = [];
  const leaders = new LeadershipReport(selected.length, print);
  const tokenFile = flags["metrics-token-file"];
  let probes: Probes | undefined;
  try {
    probes = await startProbes({
      ...{ metricsAddress, probeAddress, metrics, client },
      tokenFile: typeof tokenFile === "string" ? tokenFile : undefined,
      reconciles: { reconciles: (filter) => running.flatMap((each) => each.reconciles(filter)) },
      isReady: () => running.length === selected.length,
    });
    probes.descriptions.forEach(print);
    for (const operator of selected) {
      const dataDir = resolve(String(flags["data-dir"]), operator.name);
      mkdirSync(dataDir, { recursive: true, mode: 0o700 });
      const started = await startOperator({
        operator,
        client,
        clock: systemClock,
        logger: log.child({ operator: operator.name }),
        dataDir,
        flags,
        metrics,
        leaderElection: { namespace: String(flags.namespace), name: leaseNameOf(operator) },
        onLeadership: (leadership) => leaders.changed(operator.name, leadership),
        signal: shutdown.signal,
      });
      running.push(started);
      leaders.started(operator.name, started.descriptions);
    }
    await Promise.race([aborted(shutdown.signal), ...running.map((each) => each.done)]);
    return shutdown.fault === undefined ? 0 : 1;
  } finally {
    for (const each of running.reverse()) await each.stop();
    await probes?.stop();
    await client.close();
    shutdown.dispose();
  }
}

const names = (operators: readonly Operator[]): string => operators.map((operator) => operator.name).join(",");
