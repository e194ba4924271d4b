import type { EvictionSettings } from "@keelson/cluster/eviction";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import type { AuditOptions } from "@keelson/apiserver";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import type { FlagDefinition, FlagValues } from "@keelson/operator/flags";
import { type AddressBlock, type PodNetworkKind, reserveAddressBlock } from "@keelson/cluster/address-block";
import { lockDataFolder } from "./data-folder-lock.ts";
import type { PodRuntimeName } from "./pod-runtime-flag.ts";
import { portOf, portsOf } from "./ports.ts";
import type { ApiServerConfig, ComponentConfig, ComponentTokens, ControllersConfig } from "./processes/messages.ts";
import { type Endpoints, launchProcess, type LaunchOptions, type SupervisedProcess } from "./processes/supervised-process.ts";
import { tokenNames } from "./access/token-names.ts";

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
  /** The flags of their servers. */
  readonly operatorFlags: readonly FlagDefinition[];
  /** Whether to run the built-in controllers and the node. */
  readonly hasCluster: boolean;
  /** Socket of a containerd that must respond. Default: the standard socket, if one responds. */
  readonly containerd: string | undefined;
  /** The runtime of Pods without a RuntimeClass. */
  readonly podRuntime: PodRuntimeName;
  /** Where Pods have their addresses. */
  readonly podNetworkKind: PodNetworkKind;
  /** Kernel parameters that Pods may set beyond the safe ones. */
  readonly allowedUnsafeSysctls: readonly string[];
  /** When the node is low on disk space. */
  readonly eviction: EvictionSettings;
  /** Number of terminated Pods above which the oldest are deleted; 0 keeps all. */
  readonly terminatedPodThreshold: number;
  /** The audit log of the API server. Undefined: none. */
  readonly audit: AuditOptions | undefined;
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
  /** Addresses by name: `apiserver`, `metrics` and those of the operators' servers. */
  readonly endpoints: Endpoints;
  /** Opens a client with all permissions. It is closed by {@link stop}. */
  openClient(): Promise<Client>;
  /** Stops all components in reverse starting order. */
  stop(): Promise<void>;
}

/**
 * Starts the API server in one process, and the built-in controllers, the node and the operators in another. A process that exits is
 * restarted with backoff and does not affect the other one. If the first start fails, everything is stopped.
 */
export async function startLocal(options: LocalOptions): Promise<Local> {
  const local = new RunningLocal(options);
  try {
    await local.start();
    return local;
  } catch (error) {
    await local.stop();
    throw error;
  }
}

class RunningLocal implements Local {
  readonly dataDir: string;
  kubeconfig = "";
  endpoints: Endpoints = {};
  readonly #options: LocalOptions;
  readonly #tokens: ComponentTokens;
  readonly #stops: (() => Promise<void>)[] = [];
  #server = "";

  constructor(options: LocalOptions) {
    this.#options = options;
    this.dataDir = options.dataDir;
    this.#tokens = Object.fromEntries(
      tokenNames(options.operators).map((name) => [name, randomBytes(32).toString("base64url")]),
    );
  }

  async start(): Promise<void> {
    const addresses = await this.#lock();
    // The controllers load their code while the API server starts.
    const api = this.#launchApiServer();
    const controllers = this.#launchControllers();
    this.#stops.push(
      () => api.stop(),
      () => controllers.stop(),
    );
    const { apiserver: server = "", kubeconfig = "", socket } = await api.start(this.#apiServerConfig(addresses));
    this.kubeconfig = kubeconfig;
    this.#server = server;
    this.endpoints = { apiserver: server, ...(await controllers.start(this.#controllersConfig(addresses, socket))) };
  }

  async openClient(): Promise<Client> {
    // Only the tour needs a client; loading it takes as much memory as the rest of this process.
    const { createClient, createHttpTransport } = await import("@keelson/client");
    const transport = createHttpTransport({
      server: this.#server,
      ca: await readFile(join(this.dataDir, "pki", "ca.crt"), "utf8"),
      token: this.#tokens["admin"] ?? "",
      clock: this.#options.clock,
    });
    this.#stops.push(() => transport.close());
    return createClient({ transport, fieldManager: "keelson" });
  }

  async stop(): Promise<void> {
    for (let next = this.#stops.pop(); next !== undefined; next = this.#stops.pop()) await next();
  }

  /** Locks the data directory and reserves its addresses. */
  async #lock(): Promise<AddressBlock> {
    const lock = await lockDataFolder(this.dataDir, Math.random);
    this.#stops.push(() => lock.release());
    const addresses = await reserveAddressBlock(this.dataDir, undefined, this.#options.podNetworkKind);
    this.#stops.push(() => addresses.release());
    if (addresses.hasMoved)
      this.#options.log.warn(
        { network: addresses.podNetwork },
        "the address block of this data directory is in use by another one; using a new block",
      );
    await addresses.record();
    return addresses;
  }

  #launchApiServer(): SupervisedProcess<ApiServerConfig> {
    return launchProcess<ApiServerConfig>({
      ...this.#launchOptions(),
      component: "apiserver",
      // Clients know the port of the first start.
      restartConfig: (config, { apiserver = "" }) => ({ ...config, port: portOf(apiserver), mayMovePort: false }),
    });
  }

  #launchControllers(): SupervisedProcess<ControllersConfig> {
    return launchProcess<ControllersConfig>({
      ...this.#launchOptions(),
      component: "controllers",
      args: ["--operators", this.#options.operators.join(",")],
      // Agents and users know the ports of the first start.
      restartConfig: ({ metricsPort, flags, ...config }, endpoints) => ({
        ...config,
        mayMovePorts: [],
        flags: { ...flags, ...portsOf(this.#options.operatorFlags, endpoints) },
        ...(metricsPort === undefined ? {} : { metricsPort: portOf(endpoints["metrics"] ?? "") }),
      }),
    });
  }

  #launchOptions(): Pick<LaunchOptions<ComponentConfig>, "dataDir" | "clock" | "log" | "signal" | "onStarted" | "onRestart"> {
    const { dataDir, clock, log, signal, onComponent, onRestart } = this.#options;
    return { dataDir, clock, log, signal, onStarted: onComponent, onRestart };
  }

  #apiServerConfig({ serviceNetwork }: AddressBlock): ApiServerConfig {
    const { dataDir, logLevel, bindAddress, apiPort, mayMovePorts, hasCluster, podRuntime, audit } = this.#options;
    return {
      component: "apiserver",
      ...{ dataDir, logLevel, bindAddress, serviceNetwork },
      tokens: this.#tokens,
      port: apiPort,
      mayMovePort: mayMovePorts.has("api-port"),
      // The service account controller creates them.
      requiresServiceAccounts: hasCluster,
      ...(hasCluster ? { podRuntime } : {}),
      ...(audit === undefined ? {} : { audit }),
    };
  }

  #controllersConfig({ podNetwork, serviceNetwork }: AddressBlock, socketPath: string | undefined): ControllersConfig {
    const { dataDir, logLevel, hasCluster, podRuntime, podNetworkKind, metricsPort, mayMovePorts, containerd, flags } =
      this.#options;
    const { allowedUnsafeSysctls, eviction, terminatedPodThreshold } = this.#options;
    return {
      component: "controllers",
      ...{ dataDir, logLevel, podNetwork, serviceNetwork, podNetworkKind, hasCluster, podRuntime, flags },
      ...{ allowedUnsafeSysctls, eviction, terminatedPodThreshold },
      tokens: this.#tokens,
      server: this.#server,
      ...(socketPath === undefined ? {} : { socketPath }),
      ...(metricsPort === undefined ? {} : { metricsPort }),
      mayMovePorts: [...mayMovePorts],
      ...(containerd === undefined ? {} : { containerd }),
    };
  }
}
