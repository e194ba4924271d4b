import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { type Client, createClient, createHttpTransport } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import type { FlagValues } from "@keelson/operator";
import { reserveAddressBlock } from "./address-block.ts";
import { lockDataFolder } from "./data-folder-lock.ts";
import { tokenNames } from "./identities.ts";
import type { PodRuntimeName } from "./pod-runtime.ts";
import type { ApiServerConfig, ControllersConfig } from "./processes/messages.ts";
import { startSupervisedProcess } from "./processes/supervised-process.ts";

/** Options of {@link startLocal}. */
export interface LocalOptions {
  readonly dataDir: string;
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly apiPort: number;
  /** Port of metrics and probes on loopback; 0 picks a free one; `undefined` disables them. */
  readonly metricsPort: number | undefined;
  /** Names of the port flags that may fall back to a free port. */
  readonly mayMovePorts: ReadonlySet<string>;
  /** Names of the operators to run. */
  readonly operators: readonly string[];
  /** Whether to run the built-in controllers and the node. */
  readonly hasCluster: boolean;
  /** Socket of a containerd that must respond. Default: the standard socket, if one responds. */
  readonly containerd: string | undefined;
  /** The runtime of Pods without a RuntimeClass. */
  readonly podRuntime: PodRuntimeName;
  readonly flags: FlagValues;
  readonly logLevel: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Called with a one-line description when a component has started. */
  readonly onComponent: (name: string, description: string) => void;
  /** Called with one line when a component exited unexpectedly and is restarted. */
  readonly onRestart: (line: string) => void;
}

/** A running Keelson on this machine. */
export interface Local {
  readonly dataDir: string;
  readonly kubeconfig: string;
  /** A client with all rights. */
  readonly client: Client;
  /** Addresses of the operators' servers, by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** Stops all components in reverse starting order. */
  stop(): Promise<void>;
}

/**
 * Starts the API server in one process, and the built-in controllers, the node and the operators in another. A process that exits is
 * restarted with backoff and does not affect the other one. If the first start fails, everything is stopped.
 */
export async function startLocal(options: LocalOptions): Promise<Local> {
  const { dataDir, clock, log, signal, hasCluster, mayMovePorts, onComponent, onRestart, logLevel } = options;
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  const common = { clock, log, signal, onStarted: onComponent, onRestart };
  try {
    const lock = await lockDataFolder(dataDir, Math.random);
    stops.push(() => lock.release());
    const addresses = await reserveAddressBlock(dataDir);
    stops.push(() => addresses.release());
    if (addresses.hasMoved)
      log.warn(
        { network: addresses.podNetwork },
        "the address block of this data folder is in use by another one; using a new block",
      );
    await addresses.record();
    const tokens = Object.fromEntries(
      tokenNames(options.operators).map((name) => [name, randomBytes(32).toString("base64url")]),
    );
    const api = await startSupervisedProcess<ApiServerConfig>({
      ...common,
      config: {
        component: "apiserver",
        ...{ dataDir, logLevel, tokens },
        bindAddress: options.bindAddress,
        port: options.apiPort,
        mayMovePort: mayMovePorts.has("api-port"),
        serviceNetwork: addresses.serviceNetwork,
        // The service account controller creates them.
        requiresServiceAccounts: hasCluster,
        ...(hasCluster ? { podRuntime: options.podRuntime } : {}),
      },
      // Clients know the port of the first start.
      restartConfig: (config, { apiserver = "" }) => ({ ...config, port: Number(new URL(apiserver).port), mayMovePort: false }),
    });
    stops.push(() => api.stop());
    const { apiserver: server = "", kubeconfig = "" } = api.endpoints;
    const transport = createHttpTransport({
      server,
      ca: await readFile(join(dataDir, "pki", "ca.crt"), "utf8"),
      token: tokens["admin"] ?? "",
      clock,
    });
    stops.push(() => transport.close());
    const client = createClient({ transport, fieldManager: "keelson" });
    const controllers = await startSupervisedProcess<ControllersConfig>({
      ...common,
      config: {
        component: "controllers",
        ...{ dataDir, logLevel, tokens, server, hasCluster },
        podNetwork: addresses.podNetwork,
        podRuntime: options.podRuntime,
        ...(options.metricsPort === undefined ? {} : { metricsPort: options.metricsPort }),
        mayMovePorts: [...mayMovePorts],
        operators: options.operators,
        ...(options.containerd === undefined ? {} : { containerd: options.containerd }),
        flags: options.flags,
      },
    });
    stops.push(() => controllers.stop());
    return { dataDir, kubeconfig, client, endpoints: controllers.endpoints, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
