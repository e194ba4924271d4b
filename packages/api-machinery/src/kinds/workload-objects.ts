import type { ObjectReference } from "./core-objects.ts";
import type { BuiltInCondition, Condition, KubernetesObject, ObjectMeta } from "../objects/object.ts";
import type { ContainerStatus, PodSpec, PodTemplate } from "./pod-spec.ts";
import type { Toleration } from "./scheduling.ts";
import type { LabelSelector } from "../selectors/label-selector.ts";
import type { PersistentVolumeClaimObject } from "./volume-objects.ts";

/*
 * The workload kinds and their companions, with the fields that controllers use. Fields that are not typed here still exist
 * at run time: these types are not schemas, and declaration merging can extend them.
 */

/** core/v1 Pod. */
export interface PodObject extends KubernetesObject {
  spec: PodSpec;
  status?: {
    phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    conditions?: BuiltInCondition[];
    message?: string;
    reason?: string;
    hostIP?: string;
    podIP?: string;
    podIPs?: { ip: string }[];
    hostIPs?: { ip: string }[];
    startTime?: string;
    nominatedNodeName?: string;
    containerStatuses?: ContainerStatus[];
    initContainerStatuses?: ContainerStatus[];
    ephemeralContainerStatuses?: ContainerStatus[];
    qosClass?: string;
    observedGeneration?: number;
  };
}

/** core/v1 Node. */
export interface NodeObject extends KubernetesObject {
  spec?: {
    unschedulable?: boolean;
    taints?: { key: string; value?: string; effect: string; timeAdded?: string }[];
    podCIDR?: string;
    podCIDRs?: string[];
    providerID?: string;
  };
  status?: {
    capacity?: Record<string, string>;
    allocatable?: Record<string, string>;
    conditions?: BuiltInCondition[];
    addresses?: { type: string; address: string }[];
    nodeInfo?: Record<string, string>;
    images?: { names?: string[]; sizeBytes?: number }[];
    volumesAttached?: { name: string; devicePath: string }[];
    volumesInUse?: string[];
    phase?: string;
  };
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
    backoffLimitPerIndex?: number;
    maxFailedIndexes?: number;
    managedBy?: string;
    podReplacementPolicy?: "TerminatingOrFailed" | "Failed";
    podFailurePolicy?: {
      rules: {
        action: "FailJob" | "FailIndex" | "Ignore" | "Count";
        onExitCodes?: { containerName?: string; operator: "In" | "NotIn"; values: number[] };
        onPodConditions?: { type: string; status?: string }[];
      }[];
    };
    successPolicy?: { rules: { succeededIndexes?: string; succeededCount?: number }[] };
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
    failedIndexes?: string;
    conditions?: BuiltInCondition[];
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
  conditions?: BuiltInCondition[];
  collisionCount?: number;
  terminatingReplicas?: number;
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
    ordinals?: { start?: number };
    persistentVolumeClaimRetentionPolicy?: { whenDeleted?: "Retain" | "Delete"; whenScaled?: "Retain" | "Delete" };
  };
  status?: WorkloadStatus & { currentReplicas?: number; currentRevision?: string; updateRevision?: string };
}

/** apps/v1 DaemonSet. */
export interface DaemonSetObject extends KubernetesObject {
  spec: {
    selector: LabelSelector;
    template: PodTemplate;
    minReadySeconds?: number;
    revisionHistoryLimit?: number;
    updateStrategy?: {
      type?: "RollingUpdate" | "OnDelete";
      rollingUpdate?: { maxSurge?: number | string; maxUnavailable?: number | string };
    };
  };
  status?: {
    observedGeneration?: number;
    currentNumberScheduled?: number;
    desiredNumberScheduled?: number;
    numberAvailable?: number;
    numberMisscheduled?: number;
    numberReady?: number;
    numberUnavailable?: number;
    collisionCount?: number;
    conditions?: BuiltInCondition[];
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
    /** Evictions that were granted: Pod names with the time of the eviction. */
    disruptedPods?: Record<string, string>;
    disruptionsAllowed?: number;
    expectedPods?: number;
    observedGeneration?: number;
    conditions?: Condition[];
  };
}

/** node.k8s.io/v1 RuntimeClass. */
export interface RuntimeClassObject extends KubernetesObject {
  /** The name that nodes know the runtime by. */
  handler: string;
  overhead?: { podFixed?: Record<string, string> };
  scheduling?: { nodeSelector?: Record<string, string>; tolerations?: Toleration[] };
}

/** apps/v1 ControllerRevision: a numbered revision of a StatefulSet or DaemonSet. */
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
      maxLimitRequestRatio?: Record<string, string>;
    }[];
  };
}

/** A target of a metric of a HorizontalPodAutoscaler. */
export interface MetricTarget {
  type: string;
  /** In percent of the requests. */
  averageUtilization?: number;
  averageValue?: string;
  value?: string;
}

/** A metric of a HorizontalPodAutoscaler. */
export interface MetricSpec {
  type: string;
  resource?: { name: string; target: MetricTarget };
  containerResource?: { name: string; container: string; target: MetricTarget };
}

/** How fast a HorizontalPodAutoscaler may scale in one direction. */
export interface ScalingRules {
  stabilizationWindowSeconds?: number;
  selectPolicy?: string;
  policies?: { type: string; value: number; periodSeconds: number }[];
  tolerance?: string;
}

/** autoscaling/v2 HorizontalPodAutoscaler. */
export interface HorizontalPodAutoscalerObject extends KubernetesObject {
  spec: {
    scaleTargetRef: { apiVersion?: string; kind: string; name: string };
    minReplicas?: number;
    maxReplicas: number;
    metrics?: MetricSpec[];
    behavior?: { scaleUp?: ScalingRules; scaleDown?: ScalingRules };
  };
  status?: {
    currentReplicas?: number;
    desiredReplicas: number;
    lastScaleTime?: string;
    currentMetrics?: unknown[];
    conditions?: Condition[];
  };
}
