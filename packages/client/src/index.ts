export * from "./client/client.ts";
export * from "./kubeconfig/connect.ts";
export * from "./kubeconfig/connection.ts";
export type { ConnectionOptions } from "./transport/connection-pools.ts";
export * from "./client/create-client.ts";
export * from "./kubeconfig/inline-connection.ts";
export * from "./transport/credentials.ts";
export * from "./transport/http-transport.ts";
export * from "./transport/observe-requests.ts";
export type { Impersonation } from "./transport/impersonation.ts";
export type { UpgradedConnection } from "./transport/http-upgrade.ts";
export {
  type Kubeconfig,
  type KubeconfigEntry,
  KubeconfigError,
  type KubeconfigLocation,
  loadKubeconfig,
} from "./kubeconfig/kubeconfig.ts";
export * from "./transport/transport-error.ts";
