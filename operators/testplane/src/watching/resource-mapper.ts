import * as machinery from "@keelson/api-machinery/kinds";
import { parseApiVersion, type ResourceType } from "@keelson/api-machinery";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import { type Cache, readOf } from "@keelson/controller";

const extra = (group: string, kind: string, plural: string, scope: "Namespaced" | "Cluster" = "Namespaced"): ResourceType => ({
  group,
  version: "v1",
  kind,
  plural,
  scope,
});

/** Built-in kinds. Their paths never change within a version, so discovery is not needed. */
const builtIns: readonly ResourceType[] = [
  machinery.Namespace,
  machinery.Node,
  machinery.Pod,
  machinery.Service,
  machinery.ConfigMap,
  machinery.Secret,
  machinery.ServiceAccount,
  machinery.PersistentVolumeClaim,
  machinery.Event,
  machinery.EventsEvent,
  machinery.Lease,
  machinery.EndpointSlice,
  machinery.Deployment,
  machinery.ReplicaSet,
  machinery.StatefulSet,
  machinery.DaemonSet,
  machinery.Job,
  machinery.CronJob,
  machinery.PodDisruptionBudget,
  machinery.NetworkPolicy,
  machinery.Ingress,
  machinery.Role,
  machinery.RoleBinding,
  machinery.ClusterRole,
  machinery.ClusterRoleBinding,
  machinery.CustomResourceDefinition,
  extra("", "Endpoints", "endpoints"),
  extra("", "LimitRange", "limitranges"),
  extra("", "ResourceQuota", "resourcequotas"),
  extra("", "ReplicationController", "replicationcontrollers"),
  extra("", "PodTemplate", "podtemplates"),
  extra("", "PersistentVolume", "persistentvolumes", "Cluster"),
  extra("apps", "ControllerRevision", "controllerrevisions"),
  extra("networking.k8s.io", "IngressClass", "ingressclasses", "Cluster"),
  extra("scheduling.k8s.io", "PriorityClass", "priorityclasses", "Cluster"),
  extra("storage.k8s.io", "StorageClass", "storageclasses", "Cluster"),
  extra("storage.k8s.io", "VolumeAttachment", "volumeattachments", "Cluster"),
  { ...extra("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"), version: "v2" },
];

const idOf = (type: { readonly group: string; readonly version: string }, kind: string): string =>
  `${type.group}/${type.version}/${kind}`;

const builtInById = new Map(builtIns.map((type) => [idOf(type, type.kind), type]));

/** Built-in kinds of an API version. */
export function builtInKinds(apiVersion: string): readonly string[] {
  const { group, version } = parseApiVersion(apiVersion);
  return builtIns.filter((each) => each.group === group && each.version === version).map(({ kind }) => kind);
}

/** The resource of a built-in kind. */
export function builtInKind(apiVersion: string, kind: string): ResourceType | undefined {
  return builtInById.get(idOf(parseApiVersion(apiVersion), kind));
}

/** CustomResourceDefinitions, with the index that {@link mapKind} uses. */
export const definitionReads = readOf(CustomResourceDefinition, {
  kind: (definition) =>
    definition.spec.versions
      .filter((version) => version.served)
      .map((version) => idOf({ group: definition.spec.group, version: version.name }, definition.spec.names.kind)),
});

/**
 * Maps a kind to its resource: built-in, or defined by a CustomResourceDefinition in the cache. Undefined if no such kind is
 * served (yet). Kinds of aggregated API servers are not supported.
 */
export function mapKind(cache: Cache, apiVersion: string, kind: string): ResourceType | undefined {
  const builtIn = builtInKind(apiVersion, kind);
  if (builtIn !== undefined) return builtIn;
  const { group, version } = parseApiVersion(apiVersion);
  const [definition] = cache.list(CustomResourceDefinition, { index: ["kind", idOf({ group, version }, kind)] });
  const isServed = definition?.status?.conditions?.some(({ type, status }) => type === "Established" && status === "True");
  if (definition === undefined || !isServed || definition.metadata.deletionTimestamp !== undefined) return undefined;
  return { group, version, kind, plural: definition.spec.names.plural, scope: definition.spec.scope };
}
