import type { Clock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import type { Client } from "../client/client.ts";
import { type Connection, connectionOf, inClusterConnection } from "./connection.ts";
import { createClient } from "../client/create-client.ts";
import { createHttpTransport } from "../transport/http-transport.ts";
import { kubeconfigFiles, KubeconfigError, loadKubeconfig } from "./kubeconfig.ts";

/** Options of {@link findConnection}. */
export interface FindConnectionOptions {
  /** A kubeconfig file. Default: the files of `KUBECONFIG`, else the Pod's service account, else `~/.kube/config`. */
  readonly kubeconfig?: string | undefined;
  /** Default: the current context. */
  readonly context?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock;
  /** Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Options of {@link connect}. */
export interface ConnectOptions extends FindConnectionOptions {
  /** Owner of the fields that the client writes. Default `keelson`. */
  readonly fieldManager?: string;
  readonly userAgent?: string;
  readonly onWarning?: (warning: string) => void;
  /** Wraps the connection, such as to log requests. Default: unchanged. */
  readonly wrapTransport?: (transport: Transport) => Transport;
}

/**
 * Finds the connection to a cluster, in controller-runtime's order: the given file, the files of `KUBECONFIG`, the service
 * account of the Pod, `~/.kube/config`.
 *
 * **Errors**: {@link KubeconfigError} with the file and the field, or the files that were not found.
 */
export async function findConnection(options: FindConnectionOptions = {}): Promise<Connection> {
  const { kubeconfig, context, signal, clock, env = process.env } = options;
  signal?.throwIfAborted();
  const environment = clock === undefined ? { env } : { clock, env };
  if (kubeconfig === undefined && !env["KUBECONFIG"] && context === undefined) {
    const connection = await inClusterConnection(environment);
    if (connection !== undefined) return connection;
  }
  const config = await loadKubeconfig({ kubeconfig, env });
  signal?.throwIfAborted();
  if (config === undefined) {
    const { files } = kubeconfigFiles({ kubeconfig, env });
    throw new KubeconfigError(`no kubeconfig found (looked for ${files.join(", ")}); set --kubeconfig or KUBECONFIG`);
  }
  return connectionOf(config, context, environment);
}

/**
 * Creates a client for the cluster that {@link findConnection} finds. Sends no request.
 *
 * **Errors**: as {@link findConnection}.
 *
 * **Example**
 *
 *     const client = await connect({ fieldManager: "example" });
 *     const pod = await client.get(Pod, { namespace: "default", name: "web" });
 */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const { fieldManager = "keelson", userAgent, clock, onWarning, wrapTransport = (same) => same } = options;
  const { transport } = await findConnection(options);
  return createClient({
    transport: wrapTransport(createHttpTransport(transport)),
    fieldManager,
    ...(userAgent === undefined ? {} : { userAgent }),
    ...(clock === undefined ? {} : { clock }),
    ...(onWarning === undefined ? {} : { onWarning }),
  });
}
