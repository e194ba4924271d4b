import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "./client.ts";
import { type Connection, connectionOf, inClusterConnection } from "./connection.ts";
import { createClient } from "./create-client.ts";
import { createHttpTransport } from "./http-transport.ts";
import { kubeconfigFiles, KubeconfigError, loadKubeconfig } from "./kubeconfig.ts";

/** Which cluster, and as whom. */
export interface FindConnectionOptions {
  /** A kubeconfig file. Default: those of `KUBECONFIG`, else the Pod's service account, else `~/.kube/config`. */
  readonly kubeconfig?: string | undefined;
  /** Default: the current one. */
  readonly context?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock;
  /** Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Options of {@link connect}. */
export interface ConnectOptions extends FindConnectionOptions {
  /** Who owns the fields that the client writes. Default `keelson`. */
  readonly fieldManager?: string;
  readonly userAgent?: string;
  readonly onWarning?: (warning: string) => void;
}

/**
 * Finds out how to reach the cluster, in controller-runtime's order: the file given, the files of `KUBECONFIG`, the service
 * account of the Pod, `~/.kube/config`.
 *
 * **Errors**: {@link KubeconfigError} naming the file and the field, or where was looked.
 */
export async function findConnection(options: FindConnectionOptions = {}): Promise<Connection> {
  const { kubeconfig, context, signal, clock, env = process.env } = options;
  signal?.throwIfAborted();
  const surroundings = clock === undefined ? { env } : { clock, env };
  if (kubeconfig === undefined && !env["KUBECONFIG"] && context === undefined) {
    const connection = await inClusterConnection(surroundings);
    if (connection !== undefined) return connection;
  }
  const config = await loadKubeconfig({ kubeconfig, env });
  signal?.throwIfAborted();
  if (config === undefined) {
    const { files } = kubeconfigFiles({ kubeconfig, env });
    throw new KubeconfigError(
      `there is no kubeconfig (looked for ${files.join(", ")}); give one with --kubeconfig or KUBECONFIG`,
    );
  }
  return connectionOf(config, context, surroundings);
}

/** Makes a client for the cluster that {@link findConnection} finds. No request is made yet. */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const { fieldManager = "keelson", userAgent, clock, onWarning } = options;
  const { transport } = await findConnection(options);
  return createClient({
    transport: createHttpTransport(transport),
    fieldManager,
    ...(userAgent === undefined ? {} : { userAgent }),
    ...(clock === undefined ? {} : { clock }),
    ...(onWarning === undefined ? {} : { onWarning }),
  });
}
