import { mkdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, createClient, createHttpTransport, findConnection } from "@keelson/client";
import { aborted, listenForShutdown, type Logger } from "@keelson/controller";
import { createPrometheusMetrics, type PrometheusMetrics } from "@keelson/controller/metrics";
import { leaseNameOf, type Operator, type RunningOperator, type ServedWebhooks, startOperator } from "@keelson/operator";
import { type FlagDefinition, type FlagValues, logLevelFlag, readLogLevel, verboseFlag } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../../command-line.ts";
import { systemNamespace } from "../../local/access/operator-user.ts";
import { createLogger } from "../../logger.ts";
import { loadOperators, loadOperatorFlags, operatorEntries } from "../../operators.ts";
import type { DefineCommand } from "../commands.ts";
import { type BindAddress, parseBindAddress } from "./bind-address.ts";
import { LeadershipReport } from "./leadership-report.ts";
import { metricsCertificate, metricsTlsFlags } from "./metrics-certificate.ts";
import { type Probes, type ProbesOptions, startProbes } from "./probe-servers.ts";
import { parseNames } from "../only.ts";

const operatorNames: readonly string[] = operatorEntries.map(({ name }) => name);

const ownFlags: readonly FlagDefinition[] = [
  {
    name: "only",
    value: "NAMES",
    description: "operators to run; their CustomResourceDefinitions must be installed",
    default: operatorNames.join(","),
  },
  {
    name: "kubeconfig",
    value: "FILE",
    description: "path of the kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the Pod's service account)",
  },
  { name: "context", value: "NAME", description: "kubeconfig context to use (default: the current context)" },
  {
    name: "namespace",
    value: "NAME",
    description: "existing namespace for the leader-election leases",
    default: systemNamespace,
  },
  {
    name: "metrics-bind-address",
    value: "ADDRESS",
    description: "address of /metrics and /debug/reconciles: IP:PORT, :PORT for all addresses, or 0 to disable",
    default: "127.0.0.1:8080",
  },
  ...Object.values(metricsTlsFlags),
  {
    name: "metrics-token-file",
    value: "FILE",
    description:
      "file with the bearer token for /metrics and /debug/reconciles (default: loopback is open, other addresses use TokenReview and SubjectAccessReview)",
  },
  {
    name: "health-probe-bind-address",
    value: "ADDRESS",
    description: "address of /healthz and /readyz: IP:PORT, :PORT for all addresses, or 0 to disable",
    default: "127.0.0.1:8081",
  },
  {
    name: "webhook-service",
    value: "NAME",
    description:
      "Service in --namespace through which the API server reaches the admission webhooks, on port 443 (default: no webhooks)",
  },
  {
    name: "webhook-bind-address",
    value: "ADDRESS",
    description:
      "address of the admission webhooks behind --webhook-service: IP:PORT, :PORT for all addresses, or 0 to disable",
    default: ":9443",
  },
  {
    name: "webhook-client-ca",
    value: "FILE",
    description:
      "CA certificates that verify the API server's client certificate; admission reviews without a valid one are rejected (default: no client certificate is required)",
  },
  { name: "data-dir", value: "DIR", description: "directory for the operators' local files", default: ".keelson/operator" },
  logLevelFlag,
  verboseFlag,
];

/** Defines `keelson operator`. */
export const defineOperatorCommand: DefineCommand = async (command, setExitCode) => {
  for (const flag of [...ownFlags, ...(await loadOperatorFlags())]) addFlag(command, flag);
  command.action(async () => {
    setExitCode(await runOperators(flagValues(command)));
  });
};

/** Runs the selected operators until a signal or until one of them fails. Resolves to the exit status. */
async function runOperators(flags: FlagValues): Promise<number> {
  const addressOf = (flag: string): BindAddress | undefined => parseBindAddress(`--${flag}`, String(flags[flag]));
  const addresses = {
    metricsAddress: addressOf("metrics-bind-address"),
    probeAddress: addressOf("health-probe-bind-address"),
  };
  const log = createLogger({ level: readLogLevel(flags) });
  const certificate = await metricsCertificate(flags, addresses.metricsAddress, { clock: systemClock, log });
  const operators = await loadOperators(parseNames("--only", String(flags["only"]), operatorNames));
  const shutdown = listenForShutdown({ faults: { log } });
  const metrics = await createPrometheusMetrics({
    processFigures: true,
    onCollectError: (err) => log.warn({ err }, "failed to collect metrics"),
  });
  const client = await connect(flags, metrics);
  const running = new OperatorGroup({ operators, flags, client, metrics, log, signal: shutdown.signal });
  try {
    await running.startProbes({ ...addresses, certificate });
    await running.start();
    await Promise.race([aborted(shutdown.signal), running.failed]);
    return shutdown.fault === undefined ? 0 : 1;
  } finally {
    await running.stop();
    await client.close();
    shutdown.dispose();
  }
}

async function connect(flags: FlagValues, metrics: PrometheusMetrics): Promise<Client> {
  const { kubeconfig, context } = flags;
  const { transport } = await findConnection({
    ...(typeof kubeconfig === "string" ? { kubeconfig } : {}),
    ...(typeof context === "string" ? { context } : {}),
  });
  return createClient({
    transport: metrics.measured(createHttpTransport(transport), new URL(transport.server).host),
    fieldManager: "keelson",
  });
}

interface OperatorGroupOptions {
  readonly operators: readonly Operator[];
  readonly flags: FlagValues;
  readonly client: Client;
  readonly metrics: PrometheusMetrics;
  readonly log: Logger;
  /** Cancels the start. */
  readonly signal: AbortSignal;
}

/** The operators of this process, each with its own lease. */
class OperatorGroup {
  readonly #options: OperatorGroupOptions;
  readonly #running: RunningOperator[] = [];
  readonly #leaders: LeadershipReport;
  #probes: Probes | undefined;

  constructor(options: OperatorGroupOptions) {
    this.#options = options;
    this.#leaders = new LeadershipReport(options.operators.length, print);
  }

  /** Rejects when an operator fails or loses its lease. Read it after {@link start}. */
  get failed(): Promise<void> {
    return Promise.race(this.#running.map((each) => each.done));
  }

  async startProbes(addresses: Pick<ProbesOptions, "metricsAddress" | "probeAddress" | "certificate">): Promise<void> {
    const { flags, metrics, client, operators } = this.#options;
    const tokenFile = flags["metrics-token-file"];
    this.#probes = await startProbes({
      ...{ ...addresses, metrics, client },
      tokenFile: typeof tokenFile === "string" ? tokenFile : undefined,
      reconciles: { reconciles: (filter) => this.#running.flatMap((each) => each.reconciles(filter)) },
      isReady: () => this.#running.length === operators.length,
    });
    this.#probes.descriptions.forEach(print);
  }

  async start(): Promise<void> {
    for (const operator of this.#options.operators) await this.#start(operator);
  }

  async stop(): Promise<void> {
    for (const each of this.#running.reverse()) await each.stop();
    await this.#probes?.stop();
  }

  async #start(operator: Operator): Promise<void> {
    const { flags, client, metrics, log, signal } = this.#options;
    const dataDir = resolve(String(flags["data-dir"]), operator.name);
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const webhooks = servedWebhooks(flags);
    const started = await startOperator({
      ...{ operator, client, dataDir, flags, metrics, signal },
      ...(webhooks === undefined ? {} : { webhooks }),
      clock: systemClock,
      logger: log,
      leaderElection: { namespace: String(flags["namespace"]), name: leaseNameOf(operator) },
      onLeadership: (leadership) => this.#leaders.changed(operator.name, leadership),
    });
    this.#running.push(started);
    this.#leaders.started(operator.name, started.descriptions);
  }
}

/** The Service of the webhooks, and the address to listen on. */
function servedWebhooks(flags: FlagValues): ServedWebhooks | undefined {
  const name = flags["webhook-service"];
  const address = parseBindAddress("--webhook-bind-address", String(flags["webhook-bind-address"]));
  if (typeof name !== "string" || address === undefined) return undefined;
  const file = flags["webhook-client-ca"];
  return {
    service: { namespace: String(flags["namespace"]), name },
    ...address,
    ...(typeof file === "string" ? { clientAuthority: readFileSync(file, "utf8") } : {}),
  };
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
