import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { createClient, createHttpTransport, findConnection } from "@keelson/client";
import { aborted, listenForShutdown } from "@keelson/controller";
import { createPrometheusMetrics } from "@keelson/controller/metrics";
import { leaseNameOf, type Operator, type RunningOperator, startOperator } from "@keelson/operator";
import { logLevelFlag } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../command-line.ts";
import { systemNamespace } from "../local/operator-access.ts";
import { createLogger } from "../logger.ts";
import { loadOperators } from "../operators.ts";
import { type BindAddress, parseBindAddress, type Probes, startProbes } from "./probe-servers.ts";
import type { DefineCommand } from "./commands.ts";
import { LeadershipReport } from "./leadership-report.ts";
import { parseNames } from "./only.ts";

/** Defines `keelson operator`. */
export const defineOperatorCommand: DefineCommand = async (command, setExitCode) => {
  const operators = await loadOperators();
  const names = operators.map((operator) => operator.name);
  addFlag(command, {
    name: "only",
    value: "NAMES",
    description: "operators to run; their CustomResourceDefinitions must be installed",
    default: names.join(","),
  });
  addFlag(command, {
    name: "kubeconfig",
    value: "FILE",
    description: "path of the kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the Pod's service account)",
  });
  addFlag(command, { name: "context", value: "NAME", description: "kubeconfig context to use (default: the current context)" });
  addFlag(command, {
    name: "namespace",
    value: "NAME",
    description: "existing namespace for the leader-election leases",
    default: systemNamespace,
  });
  addFlag(command, {
    name: "metrics-bind-address",
    value: "ADDRESS",
    description: "address of /metrics and /debug/reconciles: IP:PORT, :PORT for all addresses, or 0 to disable",
    default: "127.0.0.1:8080",
  });
  addFlag(command, {
    name: "metrics-token-file",
    value: "FILE",
    description:
      "file with the bearer token for /metrics and /debug/reconciles (default: loopback is open, other addresses use TokenReview and SubjectAccessReview)",
  });
  addFlag(command, {
    name: "health-probe-bind-address",
    value: "ADDRESS",
    description: "address of /healthz and /readyz: IP:PORT, :PORT for all addresses, or 0 to disable",
    default: "127.0.0.1:8081",
  });
  addFlag(command, {
    name: "data-dir",
    value: "DIR",
    description: "directory for the operators' local files",
    default: ".keelson/operator",
  });
  addFlag(command, logLevelFlag);
  for (const operator of operators) {
    for (const flag of operator.servers.flatMap((server) => server.flags ?? [])) addFlag(command, flag);
  }
  command.action(async () => {
    setExitCode(await runOperators(flagValues(command), operators));
  });
};

async function runOperators(flags: ReturnType<typeof flagValues>, operators: readonly Operator[]): Promise<number> {
  const level = logLevelFlag.read(flags);
  const addressOf = (flag: string): BindAddress | undefined => parseBindAddress(`--${flag}`, String(flags[flag]));
  const metricsAddress = addressOf("metrics-bind-address");
  const probeAddress = addressOf("health-probe-bind-address");
  const names = parseNames(
    "--only",
    String(flags.only),
    operators.map((operator) => operator.name),
  );
  const selected = operators.filter((operator) => names.has(operator.name));
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
