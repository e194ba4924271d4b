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

/** Kinds of Kubernetes itself: their addresses do not change within a version, so nothing has to be asked. */
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

const known = new Map(builtIns.map((type) => [idOf(type, type.kind), type]));

/** The definitions of custom kinds, with the index {@link mapKind} looks in. */
export const definitionReads = readOf(CustomResourceDefinition, {
  kind: (definition) =>
    definition.spec.versions
      .filter((version) => version.served)
      .map((version) => idOf({ group: definition.spec.group, version: version.name }, definition.spec.names.kind)),
});

/**
 * The resource of a kind: built-in, or of a CustomResourceDefinition in the cache. Undefined where there is none (yet). Kinds of
 * aggregated API servers are not known.
 */
export function mapKind(cache: Cache, apiVersion: string, kind: string): ResourceType | undefined {
  const { group, version } = parseApiVersion(apiVersion);
  const builtIn = known.get(idOf({ group, version }, kind));
  if (builtIn !== undefined) return builtIn;
  const [definition] = cache.list(CustomResourceDefinition, { index: ["kind", idOf({ group, version }, kind)] });
  const isServed = definition?.status?.conditions?.some(({ type, status }) => type === "Established" && status === "True");
  if (definition === undefined || !isServed || definition.metadata.deletionTimestamp !== undefined) return undefined;
  return { group, version, kind, plural: definition.spec.names.plural, scope: definition.spec.scope };
}
