import type {
  ClusterRoleObject,
  ConfigMapObject,
  CustomResourceDefinitionObject,
  EventObject,
  EventsEventObject,
  LeaseObject,
  NamespaceObject,
  RoleBindingObject,
  RoleObject,
  SecretObject,
  ServiceAccountObject,
} from "./core-objects.ts";
import type {
  EndpointSliceObject,
  EndpointsObject,
  IngressObject,
  NetworkPolicyObject,
  ServiceObject,
} from "./network-objects.ts";
import type { KubernetesObject } from "../objects/object.ts";
import type { ResourceType, Scope } from "../objects/resource.ts";
import type { PersistentVolumeClaimObject, PersistentVolumeObject, StorageClassObject } from "./volume-objects.ts";
import type {
  ControllerRevisionObject,
  CronJobObject,
  DaemonSetObject,
  DeploymentObject,
  HorizontalPodAutoscalerObject,
  JobObject,
  LimitRangeObject,
  NodeObject,
  PodDisruptionBudgetObject,
  PodObject,
  PriorityClassObject,
  ReplicaSetObject,
  ResourceQuotaObject,
  StatefulSetObject,
  RuntimeClassObject,
} from "./workload-objects.ts";

/* The built-in kinds as clients address them. */

function builtIn<T extends KubernetesObject>(
  group: string,
  version: string,
  kind: string,
  plural: string,
  scope: Scope = "Namespaced",
): ResourceType<T> {
  return { group, version, kind, plural, scope };
}

/** The resource of {@link NamespaceObject}. */
export const Namespace = builtIn<NamespaceObject>("", "v1", "Namespace", "namespaces", "Cluster");
/** The resource of {@link NodeObject}. */
export const Node = builtIn<NodeObject>("", "v1", "Node", "nodes", "Cluster");
/** The resource of {@link PodObject}. */
export const Pod = builtIn<PodObject>("", "v1", "Pod", "pods");
/** The resource of {@link ServiceObject}. */
export const Service = builtIn<ServiceObject>("", "v1", "Service", "services");
/** The resource of {@link ConfigMapObject}. */
export const ConfigMap = builtIn<ConfigMapObject>("", "v1", "ConfigMap", "configmaps");
/** The resource of {@link SecretObject}. */
export const Secret = builtIn<SecretObject>("", "v1", "Secret", "secrets");
/** The resource of {@link ServiceAccountObject}. */
export const ServiceAccount = builtIn<ServiceAccountObject>("", "v1", "ServiceAccount", "serviceaccounts");
/** The resource of {@link PersistentVolumeClaimObject}. */
export const PersistentVolumeClaim = builtIn<PersistentVolumeClaimObject>(
  "",
  "v1",
  "PersistentVolumeClaim",
  "persistentvolumeclaims",
);
/** core/v1 Event, the form that `kubectl get events` reads. */
export const Event = builtIn<EventObject>("", "v1", "Event", "events");
/** events.k8s.io/v1 Event, the form that controllers write. */
export const EventsEvent = builtIn<EventsEventObject>("events.k8s.io", "v1", "Event", "events");
/** The resource of {@link LeaseObject}. */
export const Lease = builtIn<LeaseObject>("coordination.k8s.io", "v1", "Lease", "leases");
/** The resource of {@link EndpointSliceObject}. */
export const EndpointSlice = builtIn<EndpointSliceObject>("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
/** The resource of {@link DeploymentObject}. */
export const Deployment = builtIn<DeploymentObject>("apps", "v1", "Deployment", "deployments");
/** The resource of {@link ReplicaSetObject}. */
export const ReplicaSet = builtIn<ReplicaSetObject>("apps", "v1", "ReplicaSet", "replicasets");
/** The resource of {@link StatefulSetObject}. */
export const StatefulSet = builtIn<StatefulSetObject>("apps", "v1", "StatefulSet", "statefulsets");
/** The resource of {@link DaemonSetObject}. */
export const DaemonSet = builtIn<DaemonSetObject>("apps", "v1", "DaemonSet", "daemonsets");
/** The resource of {@link JobObject}. */
export const Job = builtIn<JobObject>("batch", "v1", "Job", "jobs");
/** The resource of {@link CronJobObject}. */
export const CronJob = builtIn<CronJobObject>("batch", "v1", "CronJob", "cronjobs");
/** The resource of {@link PodDisruptionBudgetObject}. */
export const PodDisruptionBudget = builtIn<PodDisruptionBudgetObject>(
  "policy",
  "v1",
  "PodDisruptionBudget",
  "poddisruptionbudgets",
);
/** The resource of {@link NetworkPolicyObject}. */
export const NetworkPolicy = builtIn<NetworkPolicyObject>("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies");
/** The resource of {@link IngressObject}. */
export const Ingress = builtIn<IngressObject>("networking.k8s.io", "v1", "Ingress", "ingresses");
/** The resource of {@link RoleObject}. */
export const Role = builtIn<RoleObject>("rbac.authorization.k8s.io", "v1", "Role", "roles");
/** The resource of {@link RoleBindingObject}. */
export const RoleBinding = builtIn<RoleBindingObject>("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
/** The resource of {@link ClusterRoleObject}. */
export const ClusterRole = builtIn<ClusterRoleObject>(
  "rbac.authorization.k8s.io",
  "v1",
  "ClusterRole",
  "clusterroles",
  "Cluster",
);
/** The resource of {@link RoleBindingObject}. */
export const ClusterRoleBinding = builtIn<RoleBindingObject>(
  "rbac.authorization.k8s.io",
  "v1",
  "ClusterRoleBinding",
  "clusterrolebindings",
  "Cluster",
);
/** The resource of {@link CustomResourceDefinitionObject}. */
export const CustomResourceDefinition = builtIn<CustomResourceDefinitionObject>(
  "apiextensions.k8s.io",
  "v1",
  "CustomResourceDefinition",
  "customresourcedefinitions",
  "Cluster",
);
/** The resource of {@link PersistentVolumeObject}. */
export const PersistentVolume = builtIn<PersistentVolumeObject>("", "v1", "PersistentVolume", "persistentvolumes", "Cluster");
/** The resource of {@link StorageClassObject}. */
export const StorageClass = builtIn<StorageClassObject>("storage.k8s.io", "v1", "StorageClass", "storageclasses", "Cluster");
/** The resource of {@link RuntimeClassObject}. */
export const RuntimeClass = builtIn<RuntimeClassObject>("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", "Cluster");
/** The resource of {@link EndpointsObject}. */
export const Endpoints = builtIn<EndpointsObject>("", "v1", "Endpoints", "endpoints");
/** The resource of {@link ControllerRevisionObject}. */
export const ControllerRevision = builtIn<ControllerRevisionObject>("apps", "v1", "ControllerRevision", "controllerrevisions");
/** The resource of {@link PriorityClassObject}. */
export const PriorityClass = builtIn<PriorityClassObject>(
  "scheduling.k8s.io",
  "v1",
  "PriorityClass",
  "priorityclasses",
  "Cluster",
);
/** The resource of {@link ResourceQuotaObject}. */
export const ResourceQuota = builtIn<ResourceQuotaObject>("", "v1", "ResourceQuota", "resourcequotas");
/** The resource of {@link LimitRangeObject}. */
export const LimitRange = builtIn<LimitRangeObject>("", "v1", "LimitRange", "limitranges");
/** The resource of {@link HorizontalPodAutoscalerObject}. */
export const HorizontalPodAutoscaler = builtIn<HorizontalPodAutoscalerObject>(
  "autoscaling",
  "v2",
  "HorizontalPodAutoscaler",
  "horizontalpodautoscalers",
);
