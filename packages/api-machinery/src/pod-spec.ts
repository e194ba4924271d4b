import type { ObjectMeta } from "./object.ts";

/** One variable of a container's environment (core/v1 EnvVar). */
export interface EnvVar {
  name: string;
  value?: string;
  valueFrom?: {
    configMapKeyRef?: { name?: string; key: string; optional?: boolean };
    secretKeyRef?: { name?: string; key: string; optional?: boolean };
    fieldRef?: { fieldPath: string; apiVersion?: string };
    resourceFieldRef?: { resource: string; containerName?: string; divisor?: string };
  };
}

/** How a container is asked whether it is well (core/v1 Probe). */
export interface Probe {
  exec?: { command?: string[] };
  httpGet?: {
    path?: string;
    port: number | string;
    host?: string;
    scheme?: string;
    httpHeaders?: { name: string; value: string }[];
  };
  tcpSocket?: { port: number | string; host?: string };
  grpc?: { port: number; service?: string };
  initialDelaySeconds?: number;
  periodSeconds?: number;
  timeoutSeconds?: number;
  successThreshold?: number;
  failureThreshold?: number;
  terminationGracePeriodSeconds?: number;
}

/** What a container needs at least and gets at most: quantities by resource (core/v1 ResourceRequirements). */
export interface ResourceRequirements {
  requests?: Record<string, string | number>;
  limits?: Record<string, string | number>;
}

/** A program of a Pod (core/v1 Container). */
export interface Container {
  name: string;
  image?: string;
  command?: string[];
  args?: string[];
  workingDir?: string;
  env?: EnvVar[];
  envFrom?: {
    prefix?: string;
    configMapRef?: { name?: string; optional?: boolean };
    secretRef?: { name?: string; optional?: boolean };
  }[];
  ports?: { name?: string; containerPort: number; hostPort?: number; protocol?: string; hostIP?: string }[];
  resources?: ResourceRequirements;
  volumeMounts?: { name: string; mountPath: string; subPath?: string; readOnly?: boolean }[];
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  startupProbe?: Probe;
  lifecycle?: { postStart?: Probe; preStop?: Probe; stopSignal?: string };
  imagePullPolicy?: "Always" | "IfNotPresent" | "Never";
  restartPolicy?: string;
  securityContext?: {
    runAsUser?: number;
    runAsGroup?: number;
    runAsNonRoot?: boolean;
    readOnlyRootFilesystem?: boolean;
    privileged?: boolean;
    allowPrivilegeEscalation?: boolean;
    capabilities?: { add?: string[]; drop?: string[] };
    seccompProfile?: { type: string; localhostProfile?: string };
  };
  terminationMessagePath?: string;
  terminationMessagePolicy?: string;
  stdin?: boolean;
  stdinOnce?: boolean;
  tty?: boolean;
}

/** Where files of a Pod come from (core/v1 Volume). */
export interface Volume {
  name: string;
  emptyDir?: { medium?: string; sizeLimit?: string };
  hostPath?: { path: string; type?: string };
  configMap?: {
    name?: string;
    items?: { key: string; path: string; mode?: number }[];
    defaultMode?: number;
    optional?: boolean;
  };
  secret?: {
    secretName?: string;
    items?: { key: string; path: string; mode?: number }[];
    defaultMode?: number;
    optional?: boolean;
  };
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  projected?: { sources?: unknown[]; defaultMode?: number };
  downwardAPI?: { items?: unknown[]; defaultMode?: number };
}

/** What a Pod is to be (core/v1 PodSpec). */
export interface PodSpec {
  containers: Container[];
  initContainers?: Container[];
  volumes?: Volume[];
  nodeName?: string;
  nodeSelector?: Record<string, string>;
  restartPolicy?: "Always" | "OnFailure" | "Never";
  terminationGracePeriodSeconds?: number;
  activeDeadlineSeconds?: number;
  serviceAccountName?: string;
  automountServiceAccountToken?: boolean;
  hostname?: string;
  subdomain?: string;
  hostNetwork?: boolean;
  hostPID?: boolean;
  dnsPolicy?: string;
  affinity?: unknown;
  tolerations?: { key?: string; operator?: string; value?: string; effect?: string; tolerationSeconds?: number }[];
  topologySpreadConstraints?: unknown[];
  schedulerName?: string;
  priorityClassName?: string;
  priority?: number;
  runtimeClassName?: string;
  schedulingGates?: { name: string }[];
  enableServiceLinks?: boolean;
  shareProcessNamespace?: boolean;
  hostAliases?: { ip: string; hostnames?: string[] }[];
  imagePullSecrets?: { name?: string }[];
  securityContext?: {
    runAsUser?: number;
    runAsGroup?: number;
    runAsNonRoot?: boolean;
    fsGroup?: number;
    seccompProfile?: { type: string; localhostProfile?: string };
  };
}

/** The Pods that a workload makes (core/v1 PodTemplateSpec). */
export interface PodTemplate {
  metadata?: ObjectMeta;
  spec: PodSpec;
}

/** What became of a container (core/v1 ContainerStatus). */
export interface ContainerStatus {
  name: string;
  ready: boolean;
  restartCount: number;
  image: string;
  imageID: string;
  containerID?: string;
  started?: boolean;
  state?: ContainerState;
  lastState?: ContainerState;
}

/** Exactly one of these is set (core/v1 ContainerState). */
export interface ContainerState {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt?: string };
  terminated?: {
    exitCode: number;
    signal?: number;
    reason?: string;
    message?: string;
    startedAt?: string;
    finishedAt?: string;
    containerID?: string;
  };
}
