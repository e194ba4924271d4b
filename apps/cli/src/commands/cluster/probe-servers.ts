import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Manager } from "@keelson/controller";
import type { PrometheusMetrics } from "@keelson/controller/metrics";
import { createProbeServer, reviewedAccess } from "@keelson/controller/probes";
import { UsageError } from "@keelson/operator/flags";

/** The address that a server listens on. */
export interface BindAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Parses the value of a flag such as `--metrics-bind-address`, in controller-runtime's format: `IP:PORT`, `:PORT` for all addresses,
 * or `0` to disable the server (`undefined`).
 *
 * **Errors**: `UsageError` that names the flag.
 */
export function parseBindAddress(flag: string, text: string): BindAddress | undefined {
  if (text === "0") return undefined;
  // Brackets are optional, so that `$(POD_IP):8080` is valid for both address families.
  const [, bracketed, plain = "", digits = ""] = text.match(/^(?:\[([^\]]*)\]|(.*)):(\d{1,5})$/) ?? [];
  const host = bracketed ?? (plain === "" ? "::" : plain === "localhost" ? "127.0.0.1" : plain);
  const port = Number(digits);
  if (digits === "" || port > 65_535 || isIP(host) === 0)
    throw new UsageError(
      `${flag}: ${JSON.stringify(text)} is not a valid address: must be IP:PORT, :PORT for all addresses, or 0 to disable`,
    );
  return { host, port };
}

/** Whether the address is a loopback address. */
export function isLoopback({ host }: BindAddress): boolean {
  return host === "::1" || host.startsWith("127.");
}

/** Options of {@link startProbes}. An `undefined` address disables its server. */
export interface ProbesOptions {
  readonly metricsAddress: BindAddress | undefined;
  readonly probeAddress: BindAddress | undefined;
  /** File with the bearer token for `/metrics` and `/debug/reconciles`. Default: requests are authorized by the API server. */
  readonly tokenFile: string | undefined;
  /** Authorizes requests if the metrics address is not a loopback address and there is no token file. */
  readonly client: Client;
  readonly metrics: PrometheusMetrics;
  readonly reconciles: Pick<Manager, "reconciles">;
  /** Whether all caches have synced and all servers listen. */
  readonly isReady: () => boolean;
}

/** Running metrics and probe servers. */
export interface Probes {
  /** One line per server. */
  readonly descriptions: readonly string[];
  stop(): Promise<void>;
}

/**
 * Serves `/metrics` and `/debug/reconciles` on one address, `/healthz` and `/readyz` on another. Metrics and reconcile traces expose
 * cluster state, so beyond loopback they require the token or a SubjectAccessReview. Probes expose nothing and are open to the kubelet.
 *
 * **Errors**: `UsageError` if the token file is empty.
 */
export async function startProbes(options: ProbesOptions): Promise<Probes> {
  const { metricsAddress, probeAddress, tokenFile, metrics, reconciles, isReady, client } = options;
  const access =
    tokenFile !== undefined
      ? readTokenFile(tokenFile)
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

function readTokenFile(file: string): string {
  const token = readFileSync(file, "utf8").trim();
  if (token === "") throw new UsageError(`--metrics-token-file: ${file} is empty`);
  return token;
}
