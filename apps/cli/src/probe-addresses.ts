import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { createProbeServer, type Manager, type PrometheusMetrics, reviewedAccess } from "@keelson/controller";
import { UsageError } from "./command-line.ts";

/** Where a server listens. */
export interface BindAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Parses the value of a flag such as `--metrics-bind-address`: `IP:PORT`, `:PORT` for every address of the machine, `0` for no
 * server at all (`undefined`), as controller-runtime takes it.
 *
 * **Errors**: `UsageError` that names the flag.
 */
export function parseBindAddress(flag: string, text: string): BindAddress | undefined {
  if (text === "0") return undefined;
  const [, bracketed, plain = "", digits = ""] = text.match(/^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/) ?? [];
  const host = bracketed ?? (plain === "" ? "::" : plain === "localhost" ? "127.0.0.1" : plain);
  const port = Number(digits);
  if (digits === "" || port > 65_535 || isIP(host) === 0)
    throw new UsageError(
      `${flag}: ${JSON.stringify(text)} is no address; write it as 127.0.0.1:8080, as :8080 for every address, or 0 for none`,
    );
  return { host, port };
}

/** Whether only this machine reaches the address. */
export function isLoopback({ host }: BindAddress): boolean {
  return host === "::1" || host.startsWith("127.");
}

/** What {@link startProbes} serves, and where; an absent address is no server. */
export interface ProbesOptions {
  readonly metricsAddress: BindAddress | undefined;
  readonly probeAddress: BindAddress | undefined;
  /** File with the bearer token of `/metrics` and `/debug/reconciles`. Default: the API server says who may. */
  readonly tokenFile: string | undefined;
  /** Asks the API server, where the metrics' address is not loopback and there is no token. */
  readonly client: Client;
  readonly metrics: PrometheusMetrics;
  readonly reconciles: Pick<Manager, "reconciles">;
  /** Whether the controllers' caches are filled and their servers listen. */
  readonly isReady: () => boolean;
}

/** Servers of metrics and probes. */
export interface Probes {
  /** A line for each. */
  readonly descriptions: readonly string[];
  stop(): Promise<void>;
}

/**
 * Serves `/metrics` and `/debug/reconciles` at one address, `/healthz` and `/readyz` at the other. What tells of the cluster is
 * for this machine alone, or for who has the token or whom the API server lets: probes are asked by a kubelet from outside and tell nothing.
 *
 * **Errors**: `UsageError` where the token's file is no use.
 */
export async function startProbes(options: ProbesOptions): Promise<Probes> {
  const { metricsAddress, probeAddress, tokenFile, metrics, reconciles, isReady, client } = options;
  const access =
    tokenFile !== undefined
      ? readToken(tokenFile)
      : metricsAddress === undefined || isLoopback(metricsAddress)
        ? undefined
        : reviewedAccess({ client, clock: systemClock });
  const ready = {
    "informer-sync": () => {
      if (!isReady()) throw new Error("not started yet");
    },
  };
  const servers = [
    {
      what: "metrics",
      address: metricsAddress,
      path: "/metrics",
      server: createProbeServer({ metrics, reconciles, ...(access === undefined ? {} : { access }) }),
    },
    { what: "probes", address: probeAddress, path: "/healthz", server: createProbeServer({ ready }) },
  ];
  const stop = async (): Promise<void> => void (await Promise.all(servers.map(({ server }) => server.stop())));
  const descriptions: string[] = [];
  try {
    for (const { what, address, path, server } of servers) {
      if (address !== undefined) descriptions.push(`${what}\t${await server.listen(address.port, address.host)}${path}`);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { descriptions, stop };
}

function readToken(file: string): string {
  const token = readFileSync(file, "utf8").trim();
  if (token === "") throw new UsageError(`--metrics-token-file: ${file} is empty`);
  return token;
}
