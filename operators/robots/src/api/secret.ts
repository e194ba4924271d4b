import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** The fields of a Secret that this operator uses. */
export interface TokenSecret extends KubernetesObject {
  type?: string;
  data?: Record<string, string>;
}

/** The built-in kind Secret. */
export const Secret: ResourceType<TokenSecret> = {
  group: "",
  version: "v1",
  kind: "Secret",
  plural: "secrets",
  scope: "Namespaced",
};
