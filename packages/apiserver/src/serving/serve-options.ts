import type { Clock } from "@keelson/api-machinery/time";
import type { AuditLogFile } from "../audit/audit-log.ts";
import type { RandomSource } from "../endpoints/random-source.ts";
import type { KubeletAccess } from "../endpoints/proxy/kubelet-proxy.ts";
import type { MetricsSource } from "../registry/kinds/node/metrics.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import type { ApiServer, ApiServerOptions } from "../server.ts";

/** Options of `serveApi`. */
export interface ServeApiOptions {
  /** Directory for `storage/`, `pki/` and `kubeconfig`. */
  readonly dataDir: string;
  /** Default `127.0.0.1`. */
  readonly bindAddress?: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly clock: Clock;
  readonly random: RandomSource;
  /** Settings of the storage in `dataDir/storage`. Default: durable writes, 5 minutes or 100,000 changes of watch history. */
  readonly storage?: Omit<Extract<ApiServerOptions["storage"], { dataDir: string }>, "dataDir">;
  /** Static bearer tokens and their users. Each token has at least 16 characters. Default: none. */
  readonly staticTokens?: ReadonlyMap<string, UserInfo>;
  /**
   * Path of a Unix socket that serves HTTP without TLS to holders of static tokens, and to no one else: neither anonymous requests nor other
   * tokens are accepted. Its directory is open to this user only. Default: no socket.
   */
  readonly socketPath?: string;
  /** Accepts requests without credentials as `system:anonymous`, subject to RBAC. Default true; otherwise they fail with 401. */
  readonly anonymous?: boolean;
  /** Subresources that are not views of their object, by `<group>/<plural>/<subresource>`: `/pods/log`. Default: none. */
  readonly subresources?: NonNullable<ApiServerOptions["subresources"]>;
  /** Headers that tell the kubelet of a Pod on another node about the sender of a request. Default: none. */
  readonly kubeletHeaders?: KubeletAccess["headersFor"];
  /** Serves current resource usage as metrics.k8s.io/v1beta1, for `kubectl top`. Default: the group is not served. */
  readonly metrics?: MetricsSource;
  /** Additional admission steps. Default: none. */
  readonly admission?: NonNullable<ApiServerOptions["admission"]>;
  /** Whether Pods need an existing service account, which a controller has to create in each namespace. Default false. */
  readonly requiresServiceAccounts?: boolean;
  /** The first two octets of Service addresses, which must be local to this machine. Default `127.200`. */
  readonly serviceNetwork?: string;
  /** Seats of API Priority and Fairness. Default 200. */
  readonly seats?: number;
  /** Records requests over HTTP. Default: none. */
  readonly audit?: AuditOptions;
  /** Called with background errors. Default: ignored. */
  readonly onError?: (error: unknown) => void;
}

/** The audit log of an API server. */
export interface AuditOptions {
  /** Path of an audit.k8s.io/v1 Policy in YAML or JSON. */
  readonly policyFile: string;
  readonly log: AuditLogFile;
}

/** A listening API server. */
export interface ServedApi {
  readonly server: ApiServer;
  /** `https://127.0.0.1:6443`. */
  readonly url: string;
  /** Path of the Unix socket. Undefined if none was requested or it could not be created. */
  readonly socketPath: string | undefined;
  /** Path of the cluster administrator's kubeconfig. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}
