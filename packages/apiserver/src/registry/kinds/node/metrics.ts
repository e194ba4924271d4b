import type { KubernetesObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { ageColumn, column } from "../../builtin/builtin-resource.ts";
import type { ServedResource } from "../../served-resource.ts";

/** Current resource usage, read from the node when it is requested. */
export interface MetricsSource {
  /** metrics.k8s.io/v1beta1 NodeMetrics of all nodes. */
  nodeMetrics(): Promise<readonly KubernetesObject[]>;
  /** metrics.k8s.io/v1beta1 PodMetrics of all namespaces. */
  podMetrics(): Promise<readonly KubernetesObject[]>;
}

const text: Schema = { type: "string" };
const usage: Schema = { type: "object", additionalProperties: { type: "string" } };
const window = { timestamp: { type: "string", format: "date-time" }, window: text } as const;
const meta = { apiVersion: text, kind: text, metadata: { type: "object" } } as const;

/** metrics.k8s.io/v1beta1 (the API of metrics-server), computed instead of stored. */
export function metricsKinds(source: MetricsSource): readonly ServedResource[] {
  const common = {
    group: "metrics.k8s.io",
    version: "v1beta1",
    storageApiVersion: "metrics.k8s.io/v1beta1",
    singular: "",
    shortNames: [],
    categories: [],
    verbs: ["get", "list"],
    origin: "builtin",
    hasStatus: false,
    strategy: {},
    selectableFields: {},
    columns: [column("Window", "The time over which usage was measured."), ageColumn],
  } as const;
  const containers: Schema = {
    type: "array",
    items: { type: "object", properties: { name: text, usage } },
  };
  return [
    {
      ...common,
      kind: "NodeMetrics",
      listKind: "NodeMetricsList",
      plural: "nodes",
      scope: "Cluster",
      schema: { type: "object", properties: { ...meta, ...window, usage } },
      provide: () => source.nodeMetrics(),
    },
    {
      ...common,
      kind: "PodMetrics",
      listKind: "PodMetricsList",
      plural: "pods",
      scope: "Namespaced",
      schema: { type: "object", properties: { ...meta, ...window, containers } },
      provide: async (namespace) => {
        const all = await source.podMetrics();
        return namespace === "" ? all : all.filter(({ metadata }) => metadata.namespace === namespace);
      },
    },
  ];
}
