import type { ResourceType } from "@keelson/api-machinery";
import { parseApiVersion } from "@keelson/api-machinery";
import {
  ClusterRole,
  ClusterRoleBinding,
  ConfigMap,
  CustomResourceDefinition,
  Deployment,
  Ingress,
  Namespace,
  NetworkPolicy,
  PersistentVolumeClaim,
  PodDisruptionBudget,
  Role,
  RoleBinding,
  Service,
  ServiceAccount,
} from "@keelson/api-machinery/kinds";

/** The Prometheus Operator's kind of scrape targets. */
const ServiceMonitor: ResourceType = {
  group: "monitoring.coreos.com",
  version: "v1",
  kind: "ServiceMonitor",
  plural: "servicemonitors",
  scope: "Namespaced",
};

/** The Prometheus Operator's kind of alert rules. */
const PrometheusRule: ResourceType = {
  ...ServiceMonitor,
  kind: "PrometheusRule",
  plural: "prometheusrules",
};

/** Optional kinds of other projects, with the value that asks for each. */
export const optionalKinds: ReadonlyMap<string, string> = new Map([
  [ServiceMonitor.kind, "metrics.serviceMonitor.enabled"],
  [PrometheusRule.kind, "metrics.rules.enabled"],
]);

/** Every kind that an installation contains, in the order in which objects are removed. */
export const installedTypes: readonly ResourceType[] = [
  ServiceMonitor,
  PrometheusRule,
  Deployment,
  PodDisruptionBudget,
  NetworkPolicy,
  Ingress,
  Service,
  ConfigMap,
  PersistentVolumeClaim,
  RoleBinding,
  Role,
  ClusterRoleBinding,
  ClusterRole,
  ServiceAccount,
  CustomResourceDefinition,
  Namespace,
];

/** The type of an object of an installation. */
export function resourceTypeOf({ apiVersion, kind }: { readonly apiVersion: string; readonly kind: string }): ResourceType {
  const { group } = parseApiVersion(apiVersion);
  const type = installedTypes.find((each) => each.group === group && each.kind === kind);
  if (type === undefined) throw new TypeError(`unexpected kind ${apiVersion} ${kind}`);
  return type;
}
