import type { EvictionSettings } from "@keelson/cluster/eviction";
import type { AuditOptions } from "@keelson/apiserver";
import type { FlagValues } from "@keelson/operator/flags";
import type { PodNetworkKind } from "@keelson/cluster/address-block";
import type { PodRuntimeName } from "../pod-runtime-flag.ts";

/** Identities of the components towards the API server, each with a bearer token that is valid until `keelson up` exits. */
export type ComponentTokens = Readonly<Record<string, string>>;

/** Configuration of the API server process. */
export interface ApiServerConfig {
  readonly component: "apiserver";
  readonly dataDir: string;
  readonly logLevel: string;
  readonly bindAddress: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Records requests in an audit log. Absent: none. */
  readonly audit?: AuditOptions;
  /** Whether to fall back to a free port if `port` is in use. */
  readonly mayMovePort: boolean;
  /** First two octets of Service addresses. */
  readonly serviceNetwork: string;
  readonly requiresServiceAccounts: boolean;
  /** The node's default runtime, which decides how Pods are isolated. Absent without a node. */
  readonly podRuntime?: PodRuntimeName;
  readonly tokens: ComponentTokens;
}

/** Configuration of the process that runs the built-in controllers, the node and the operators. */
export interface ControllersConfig {
  readonly component: "controllers";
  readonly dataDir: string;
  readonly logLevel: string;
  /** URL of the API server. */
  readonly server: string;
  /** Unix socket of the API server. Absent: requests go to {@link server}. */
  readonly socketPath?: string;
  readonly tokens: ComponentTokens;
  /** First two octets of addresses of Pods, and of Services. */
  readonly podNetwork: string;
  readonly serviceNetwork: string;
  /** Where Pods have these addresses. */
  readonly podNetworkKind: PodNetworkKind;
  /** Kernel parameters that Pods may set beyond the safe ones. */
  readonly allowedUnsafeSysctls: readonly string[];
  /** When the node is low on disk space. */
  readonly eviction: EvictionSettings;
  /** Number of terminated Pods above which the oldest are deleted; 0 keeps all. */
  readonly terminatedPodThreshold: number;
  /** The runtime of Pods without a RuntimeClass. */
  readonly podRuntime: PodRuntimeName;
  /** Port of metrics and probes on loopback; 0 picks a free one; absent disables them. */
  readonly metricsPort?: number;
  /** Names of the port flags that may fall back to a free port. */
  readonly mayMovePorts: readonly string[];
  /** Whether to run the built-in controllers and the node. */
  readonly hasCluster: boolean;
  /** Socket of a containerd that must respond. */
  readonly containerd?: string;
  readonly flags: FlagValues;
}

/** Configuration of one component process. */
export type ComponentConfig = ApiServerConfig | ControllersConfig;

/** Sent by `keelson up` to a component. */
export type SupervisorMessage =
  | { readonly type: "start"; readonly config: ComponentConfig }
  /** Shut down and exit with status 0. */
  | { readonly type: "stop" };

/** Sent by a component to `keelson up`. */
export type ComponentMessage =
  /** A part has started; the description is one line for users. */
  | { readonly type: "started"; readonly name: string; readonly description: string }
  /** Everything has started. `endpoints` are addresses by name. */
  | { readonly type: "ready"; readonly endpoints: Readonly<Record<string, string>> }
  /** The component cannot start; it exits next. */
  | { readonly type: "failed"; readonly message: string; readonly isUsageError: boolean };
