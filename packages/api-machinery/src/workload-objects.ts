import type { ObjectReference } from "./core-objects.ts";
import type { Condition, KubernetesObject, ObjectMeta } from "./object.ts";
import type { ContainerStatus, PodSpec, PodTemplate } from "./pod-spec.ts";
import type { LabelSelector } from "./selector.ts";

/*
 * The built-in kinds that run programs, and what is around them, with as much of their fields as controllers use. What is not typed here is still
 * there at run time: these types are open to declaration of more, not a schema.
 */

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
  spec?: {
    minAvailable?: number | string;
    maxUnavailable?: number | string;
    selector?: LabelSelector;
    unhealthyPodEvictionPolicy?: "AlwaysAllow" | "IfHealthyBudget";
  };
  status?: {
    currentHealthy?: number;
    desiredHealthy?: number;
    /** Names of Pods whose eviction was granted, with its time. */
    disruptedPods?: Record<string, string>;
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

/** core/v1 PersistentVolume. Its source (`hostPath`, `local`, `csi` ...) is a field of the spec by its name. */
export interface PersistentVolumeObject extends KubernetesObject {
  spec?: {
    capacity?: Record<string, string>;
    accessModes?: string[];
    claimRef?: ObjectReference;
    persistentVolumeReclaimPolicy?: "Retain" | "Delete" | "Recycle";
    storageClassName?: string;
    volumeMode?: "Filesystem" | "Block";
    hostPath?: { path: string; type?: string };
    local?: { path: string; fsType?: string };
    nodeAffinity?: { required?: { nodeSelectorTerms: unknown[] } };
  };
  status?: { phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed"; message?: string; reason?: string };
}

/** storage.k8s.io/v1 StorageClass. */
export interface StorageClassObject extends KubernetesObject {
  provisioner: string;
  parameters?: Record<string, string>;
  reclaimPolicy?: "Retain" | "Delete";
  volumeBindingMode?: "Immediate" | "WaitForFirstConsumer";
  allowVolumeExpansion?: boolean;
}

/** node.k8s.io/v1 RuntimeClass. */
export interface RuntimeClassObject extends KubernetesObject {
  /** The name under which nodes know the runtime. */
  handler: string;
  overhead?: { podFixed?: Record<string, string> };
  scheduling?: { nodeSelector?: Record<string, string> };
}

/** core/v1 Endpoints. New code writes {@link EndpointSliceObject}. */
export interface EndpointsObject extends KubernetesObject {
  subsets?: {
    addresses?: { ip: string; hostname?: string; nodeName?: string; targetRef?: ObjectReference }[];
    notReadyAddresses?: { ip: string; hostname?: string; nodeName?: string; targetRef?: ObjectReference }[];
    ports?: { name?: string; port: number; protocol?: string }[];
  }[];
}

/** apps/v1 ControllerRevision: a state of a StatefulSet or DaemonSet, by number. */
export interface ControllerRevisionObject extends KubernetesObject {
  data?: unknown;
  revision: number;
}

/** scheduling.k8s.io/v1 PriorityClass. */
export interface PriorityClassObject extends KubernetesObject {
  value: number;
  globalDefault?: boolean;
  description?: string;
  preemptionPolicy?: "PreemptLowerPriority" | "Never";
}

/** core/v1 ResourceQuota. */
export interface ResourceQuotaObject extends KubernetesObject {
  spec?: { hard?: Record<string, string>; scopes?: string[] };
  status?: { hard?: Record<string, string>; used?: Record<string, string> };
}

/** core/v1 LimitRange. */
export interface LimitRangeObject extends KubernetesObject {
  spec?: {
    limits: {
      type: string;
      max?: Record<string, string>;
      min?: Record<string, string>;
      default?: Record<string, string>;
      defaultRequest?: Record<string, string>;
    }[];
  };
}

/** autoscaling/v1 HorizontalPodAutoscaler. */
export interface HorizontalPodAutoscalerObject extends KubernetesObject {
  spec: {
    scaleTargetRef: { apiVersion?: string; kind: string; name: string };
    minReplicas?: number;
    maxReplicas: number;
    targetCPUUtilizationPercentage?: number;
  };
  status?: {
    currentReplicas: number;
    desiredReplicas: number;
    lastScaleTime?: string;
    currentCPUUtilizationPercentage?: number;
  };
}
