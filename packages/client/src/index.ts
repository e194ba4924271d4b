export * from "./client.ts";
export * from "./connect.ts";
export * from "./connection.ts";
export type { ConnectionOptions } from "./connection-pools.ts";
export * from "./create-client.ts";
export * from "./credentials.ts";
export * from "./http-transport.ts";
export type { Impersonation } from "./impersonation.ts";
export type { UpgradedConnection } from "./http-upgrade.ts";
export {
  type Kubeconfig,
  type KubeconfigEntry,
  KubeconfigError,
  type KubeconfigLocation,
  loadKubeconfig,
} from "./kubeconfig.ts";
export * from "./transport-error.ts";
