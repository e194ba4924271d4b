import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** A kind for tests. */
export interface Robot extends KubernetesObject {
  spec?: { model?: string; size?: number };
  status?: { phase?: string; seen?: number };
}

/** The type of {@link Robot}. */
export const robotType: ResourceType<Robot> = {
  group: "example.org",
  version: "v1",
  kind: "Robot",
  plural: "robots",
  scope: "Namespaced",
};

/** A kind that robots own. */
export interface ConfigMap extends KubernetesObject {
  data?: Record<string, string>;
}

/** The type of {@link ConfigMap}. */
export const configMapType: ResourceType<ConfigMap> = {
  group: "",
  version: "v1",
  kind: "ConfigMap",
  plural: "configmaps",
  scope: "Namespaced",
};
