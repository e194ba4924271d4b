import type { Condition, KubernetesObject, ObjectMeta } from "./object.ts";
import type { ContainerStatus, PodSpec, PodTemplate } from "./pod-spec.ts";
import type { ResourceType, Scope } from "./resource.ts";
import type { LabelSelector } from "./selector.ts";

/*
 * The built-in kinds that controllers use, with as much of their fields as controllers use. What is not typed here is still
 * there at run time: these types are open to declaration of more, not a schema.
 */

/** A reference to an object (core/v1 ObjectReference). */
export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  fieldPath?: string;
}

/** core/v1 Namespace. */
export interface NamespaceObject extends KubernetesObject {
  spec?: { finalizers?: string[] };
  status?: { phase?: "Active" | "Terminating"; conditions?: Partial<Condition>[] };
}

/** core/v1 ConfigMap. */
export interface ConfigMapObject extends KubernetesObject {
  data?: Record<string, string>;
  /** Values are base64. */
  binaryData?: Record<string, string>;
  immutable?: boolean;
}

/** core/v1 Secret. */
export interface SecretObject extends KubernetesObject {
  type?: string;
  /** Values are base64. */
  data?: Record<string, string>;
  /** Written only: plain text that the server turns into `data`. */
  stringData?: Record<string, string>;
  immutable?: boolean;
}

/** core/v1 ServiceAccount. */
export interface ServiceAccountObject extends KubernetesObject {
  automountServiceAccountToken?: boolean;
  imagePullSecrets?: { name?: string }[];
  secrets?: ObjectReference[];
}

/** A core/v1 Event. New code writes {@link EventsEventObject}. */
export interface EventObject extends KubernetesObject {
  involvedObject: ObjectReference;
  reason?: string;
  message?: string;
  type?: string;
  count?: number;
  firstTimestamp?: string | null;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  action?: string;
  source?: { component?: string; host?: string };
  reportingComponent?: string;
  reportingInstance?: string;
}

/** An events.k8s.io/v1 Event. */
export interface EventsEventObject extends KubernetesObject {
  /** RFC 3339 in microseconds. */
  eventTime: string;
  /** At most 128 characters, as `reason`. */
  action?: string;
  reason?: string;
  /** At most 1,024 bytes. */
  note?: string;
  type?: "Normal" | "Warning";
  regarding?: ObjectReference;
  related?: ObjectReference;
  reportingController?: string;
  reportingInstance?: string;
  series?: { count: number; lastObservedTime: string };
}

/** coordination.k8s.io/v1 Lease. */
export interface LeaseObject extends KubernetesObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    /** RFC 3339 in microseconds, as `renewTime`. */
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

/** apiextensions.k8s.io/v1 CustomResourceDefinition. */
export interface CustomResourceDefinitionObject extends KubernetesObject {
  spec: {
    group: string;
    scope: Scope;
    names: {
      plural: string;
      kind: string;
      singular?: string;
      listKind?: string;
      shortNames?: string[];
      categories?: string[];
    };
    versions: CustomResourceDefinitionVersion[];
    conversion?: { strategy: "None" | "Webhook"; webhook?: unknown };
    preserveUnknownFields?: boolean;
  };
  status?: {
    conditions?: Partial<Condition>[];
    acceptedNames?: CustomResourceDefinitionObject["spec"]["names"];
    storedVersions?: string[];
  };
}

/** One version of a {@link CustomResourceDefinitionObject}. */
export interface CustomResourceDefinitionVersion {
  name: string;
  served: boolean;
  storage: boolean;
  deprecated?: boolean;
  deprecationWarning?: string;
  schema?: { openAPIV3Schema?: unknown };
  subresources?: {
    status?: object;
    scale?: { specReplicasPath: string; statusReplicasPath: string; labelSelectorPath?: string };
  };
  additionalPrinterColumns?: {
    name: string;
    type: string;
    jsonPath: string;
    description?: string;
    format?: string;
    priority?: number;
  }[];
  selectableFields?: { jsonPath: string }[];
}

/** A rule of RBAC (rbac/v1 PolicyRule). */
export interface PolicyRule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
}

/** rbac/v1 Role. */
export interface RoleObject extends KubernetesObject {
  rules?: PolicyRule[] | null;
}

/** rbac/v1 ClusterRole. */
export interface ClusterRoleObject extends KubernetesObject {
  rules?: PolicyRule[] | null;
  aggregationRule?: { clusterRoleSelectors?: LabelSelector[] };
}

/** A role's binding, in a namespace (RoleBinding) or everywhere (ClusterRoleBinding). */
export interface RoleBindingObject extends KubernetesObject {
  roleRef: { apiGroup: string; kind: "Role" | "ClusterRole"; name: string };
  subjects?: { kind: "User" | "Group" | "ServiceAccount"; name: string; namespace?: string; apiGroup?: string }[];
}

/** core/v1 Pod. */
export interface PodObject extends KubernetesObject {
  spec: PodSpec;
  status?: {
    phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    conditions?: Partial<Condition>[];
    message?: string;
    reason?: string;
    hostIP?: string;
    podIP?: string;
    podIPs?: { ip: string }[];
    startTime?: string;
    containerStatuses?: ContainerStatus[];
    initContainerStatuses?: ContainerStatus[];
    qosClass?: string;
    observedGeneration?: number;
  };
}

/** core/v1 Service. */
export interface ServiceObject extends KubernetesObject {
  spec?: {
    type?: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
    clusterIP?: string;
    clusterIPs?: string[];
    selector?: Record<string, string>;
    ports?: {
      name?: string;
      port: number;
      targetPort?: number | string;
      protocol?: "TCP" | "UDP" | "SCTP";
      nodePort?: number;
      appProtocol?: string;
    }[];
    externalName?: string;
    publishNotReadyAddresses?: boolean;
    sessionAffinity?: string;
  };
  status?: { loadBalancer?: { ingress?: { ip?: string; hostname?: string }[] }; conditions?: Condition[] };
}

/** discovery.k8s.io/v1 EndpointSlice. */
export interface EndpointSliceObject extends KubernetesObject {
  addressType: "IPv4" | "IPv6" | "FQDN";
  endpoints: {
    addresses: string[];
    conditions?: { ready?: boolean; serving?: boolean; terminating?: boolean };
    hostname?: string;
    nodeName?: string;
    targetRef?: ObjectReference;
  }[];
  ports?: { name?: string; port?: number; protocol?: string; appProtocol?: string }[];
}

/** core/v1 Node. */
export interface NodeObject extends KubernetesObject {
  spec?: {
    unschedulable?: boolean;
    taints?: { key: string; value?: string; effect: string; timeAdded?: string }[];
    podCIDR?: string;
    providerID?: string;
  };
  status?: {
    capacity?: Record<string, string>;
    allocatable?: Record<string, string>;
    conditions?: Partial<Condition & { lastHeartbeatTime: string }>[];
    addresses?: { type: string; address: string }[];
    nodeInfo?: Record<string, string>;
  };
}

/** core/v1 PersistentVolumeClaim. */
export interface PersistentVolumeClaimObject extends KubernetesObject {
  spec?: {
    accessModes?: string[];
    storageClassName?: string;
    volumeName?: string;
    volumeMode?: string;
    resources?: { requests?: Record<string, string>; limits?: Record<string, string> };
    selector?: LabelSelector;
  };
  status?: { phase?: "Pending" | "Bound" | "Lost"; capacity?: Record<string, string>; accessModes?: string[] };
}

/** batch/v1 Job. */
export interface JobObject extends KubernetesObject {
  spec: {
    template: PodTemplate;
    parallelism?: number;
    completions?: number;
    completionMode?: "NonIndexed" | "Indexed";
    backoffLimit?: number;
    activeDeadlineSeconds?: number;
    ttlSecondsAfterFinished?: number;
    suspend?: boolean;
    selector?: LabelSelector;
    manualSelector?: boolean;
  };
  status?: {
    active?: number;
    ready?: number;
    succeeded?: number;
    failed?: number;
    terminating?: number;
    startTime?: string;
    completionTime?: string;
    completedIndexes?: string;
    conditions?: Partial<Condition>[];
    uncountedTerminatedPods?: { succeeded?: string[]; failed?: string[] };
  };
}

/** batch/v1 CronJob. */
export interface CronJobObject extends KubernetesObject {
  spec: {
    schedule: string;
    timeZone?: string;
    suspend?: boolean;
    concurrencyPolicy?: "Allow" | "Forbid" | "Replace";
    startingDeadlineSeconds?: number;
    successfulJobsHistoryLimit?: number;
    failedJobsHistoryLimit?: number;
    jobTemplate: { metadata?: ObjectMeta; spec: JobObject["spec"] };
  };
  status?: { active?: ObjectReference[]; lastScheduleTime?: string; lastSuccessfulTime?: string };
}

interface WorkloadStatus {
  observedGeneration?: number;
  replicas?: number;
  readyReplicas?: number;
  availableReplicas?: number;
  updatedReplicas?: number;
  conditions?: Partial<Condition>[];
  collisionCount?: number;
}

/** apps/v1 Deployment. */
export interface DeploymentObject extends KubernetesObject {
  spec: {
    replicas?: number;
    selector: LabelSelector;
    template: PodTemplate;
    strategy?: {
      type?: "RollingUpdate" | "Recreate";
      rollingUpdate?: { maxSurge?: number | string; maxUnavailable?: number | string };
    };
    minReadySeconds?: number;
    revisionHistoryLimit?: number;
    progressDeadlineSeconds?: number;
    paused?: boolean;
  };
  status?: WorkloadStatus & { unavailableReplicas?: number };
}

/** apps/v1 ReplicaSet. */
export interface ReplicaSetObject extends KubernetesObject {
  spec: { replicas?: number; selector: LabelSelector; template?: PodTemplate; minReadySeconds?: number };
  status?: WorkloadStatus & { fullyLabeledReplicas?: number };
}

/** apps/v1 StatefulSet. */
export interface StatefulSetObject extends KubernetesObject {
  spec: {
    replicas?: number;
    serviceName?: string;
    selector: LabelSelector;
    template: PodTemplate;
    podManagementPolicy?: "OrderedReady" | "Parallel";
    updateStrategy?: {
      type?: "RollingUpdate" | "OnDelete";
      rollingUpdate?: { partition?: number; maxUnavailable?: number | string };
    };
    volumeClaimTemplates?: Partial<PersistentVolumeClaimObject>[];
    minReadySeconds?: number;
    revisionHistoryLimit?: number;
    persistentVolumeClaimRetentionPolicy?: { whenDeleted?: "Retain" | "Delete"; whenScaled?: "Retain" | "Delete" };
  };
  status?: WorkloadStatus & { currentReplicas?: number; currentRevision?: string; updateRevision?: string };
}

/** apps/v1 DaemonSet. */
export interface DaemonSetObject extends KubernetesObject {
  spec: { selector: LabelSelector; template: PodTemplate; minReadySeconds?: number };
  status?: {
    observedGeneration?: number;
    currentNumberScheduled?: number;
    desiredNumberScheduled?: number;
    numberAvailable?: number;
    numberMisscheduled?: number;
    numberReady?: number;
    updatedNumberScheduled?: number;
  };
}

/** policy/v1 PodDisruptionBudget. */
export interface PodDisruptionBudgetObject extends KubernetesObject {
  spec?: { minAvailable?: number | string; maxUnavailable?: number | string; selector?: LabelSelector };
  status?: {
    currentHealthy?: number;
    desiredHealthy?: number;
    disruptionsAllowed?: number;
    expectedPods?: number;
    observedGeneration?: number;
    conditions?: Condition[];
  };
}

/** networking.k8s.io/v1 NetworkPolicy. */
export interface NetworkPolicyObject extends KubernetesObject {
  spec?: { podSelector?: LabelSelector; policyTypes?: string[]; ingress?: unknown[]; egress?: unknown[] };
}

/** networking.k8s.io/v1 Ingress. */
export interface IngressObject extends KubernetesObject {
  spec?: {
    ingressClassName?: string;
    rules?: unknown[];
    tls?: { hosts?: string[]; secretName?: string }[];
    defaultBackend?: unknown;
  };
  status?: { loadBalancer?: { ingress?: { ip?: string; hostname?: string }[] } };
}

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
/** core/v1 Event, as `kubectl get events` reads it. */
export const Event = builtIn<EventObject>("", "v1", "Event", "events");
/** events.k8s.io/v1 Event, as controllers write it. */
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
