import { readFileSync } from "node:fs";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Manager } from "@keelson/controller";
import type { PrometheusMetrics } from "@keelson/controller/metrics";
import { createProbeServer, reviewedAccess } from "@keelson/controller/probes";
import { UsageError } from "@keelson/operator/flags";
import { type BindAddress, isLoopback } from "./bind-address.ts";
import type { ListenerCertificate } from "./metrics-certificate.ts";

/** Options of {@link startProbes}. An `undefined` address disables its server. */
export interface ProbesOptions {
  readonly metricsAddress: BindAddress | undefined;
  readonly probeAddress: BindAddress | undefined;
  /** Certificate of the metrics server. Undefined: plain HTTP. */
  readonly certificate: ListenerCertificate | undefined;
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
  const { metricsAddress, probeAddress, certificate, tokenFile, metrics, reconciles, isReady, client } = options;
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
  const metricsServer = createProbeServer({
    ...{ metrics, reconciles },
    ...(access === undefined ? {} : { access }),
    ...(certificate === undefined ? {} : { tls: certificate.initial }),
  });
  const stopReload = certificate?.follow((pair) => metricsServer.setCertificate(pair));
  const servers = [
    { what: "metrics", address: metricsAddress, path: "/metrics", server: metricsServer },
    { what: "probes", address: probeAddress, path: "/healthz", server: createProbeServer({ ready }) },
  ];
  const stop = async (): Promise<void> => {
    stopReload?.();
    await Promise.all(servers.map(({ server }) => server.stop()));
  };
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
