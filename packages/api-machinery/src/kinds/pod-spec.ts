import type { ObjectMeta } from "../objects/object.ts";
import type { Affinity, Toleration, TopologySpreadConstraint } from "./scheduling.ts";
import type { Volume } from "./volumes.ts";

/** An environment variable of a container (core/v1 EnvVar). */
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

/** A health check of a container (core/v1 Probe). */
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

/** Requests and limits of a container, as quantities by resource (core/v1 ResourceRequirements). */
export interface ResourceRequirements {
  requests?: Record<string, string | number>;
  limits?: Record<string, string | number>;
}

/** A hook that runs after a container starts or before it stops (core/v1 LifecycleHandler). */
export interface LifecycleHandler {
  exec?: { command?: string[] };
  httpGet?: Probe["httpGet"];
  sleep?: { seconds: number };
}

/** SELinux labels of a container (core/v1 SELinuxOptions). */
export interface SELinuxOptions {
  level?: string;
  role?: string;
  type?: string;
  user?: string;
}

/** A seccomp or AppArmor profile (core/v1 SeccompProfile and AppArmorProfile). */
export interface SecurityProfile {
  type: "Localhost" | "RuntimeDefault" | "Unconfined";
  localhostProfile?: string;
}

/** A container of a Pod (core/v1 Container). */
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
  /** How a resource is changed while the container runs. Default: without a restart. */
  resizePolicy?: { resourceName: string; restartPolicy: "NotRequired" | "RestartContainer" }[];
  volumeMounts?: {
    name: string;
    mountPath: string;
    subPath?: string;
    subPathExpr?: string;
    readOnly?: boolean;
    mountPropagation?: "None" | "HostToContainer" | "Bidirectional";
  }[];
  volumeDevices?: { name: string; devicePath: string }[];
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  startupProbe?: Probe;
  lifecycle?: { postStart?: LifecycleHandler; preStop?: LifecycleHandler; stopSignal?: string };
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
    seccompProfile?: SecurityProfile;
    appArmorProfile?: SecurityProfile;
    seLinuxOptions?: SELinuxOptions;
    procMount?: string;
  };
  terminationMessagePath?: string;
  terminationMessagePolicy?: string;
  stdin?: boolean;
  stdinOnce?: boolean;
  tty?: boolean;
}

/** The desired state of a Pod (core/v1 PodSpec). */
export interface PodSpec {
  containers: Container[];
  initContainers?: Container[];
  /** Added to a running Pod through the `ephemeralcontainers` subresource. */
  ephemeralContainers?: (Container & { targetContainerName?: string })[];
  volumes?: Volume[];
  nodeName?: string;
  nodeSelector?: Record<string, string>;
  restartPolicy?: "Always" | "OnFailure" | "Never";
  terminationGracePeriodSeconds?: number;
  activeDeadlineSeconds?: number;
  serviceAccountName?: string;
  /** Deprecated alias of `serviceAccountName`. */
  serviceAccount?: string;
  automountServiceAccountToken?: boolean;
  hostname?: string;
  subdomain?: string;
  hostNetwork?: boolean;
  hostPID?: boolean;
  hostIPC?: boolean;
  hostUsers?: boolean;
  dnsPolicy?: string;
  dnsConfig?: { nameservers?: string[]; searches?: string[]; options?: { name?: string; value?: string }[] };
  affinity?: Affinity;
  tolerations?: Toleration[];
  topologySpreadConstraints?: TopologySpreadConstraint[];
  schedulerName?: string;
  priorityClassName?: string;
  priority?: number;
  preemptionPolicy?: "PreemptLowerPriority" | "Never";
  runtimeClassName?: string;
  overhead?: Record<string, string>;
  os?: { name: "linux" | "windows" };
  readinessGates?: { conditionType: string }[];
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
    fsGroupChangePolicy?: "Always" | "OnRootMismatch";
    supplementalGroups?: number[];
    sysctls?: { name: string; value: string }[];
    seccompProfile?: SecurityProfile;
    appArmorProfile?: SecurityProfile;
    seLinuxOptions?: SELinuxOptions;
  };
}

/** The template of a workload's Pods (core/v1 PodTemplateSpec). */
export interface PodTemplate {
  metadata?: ObjectMeta;
  spec: PodSpec;
}

/** The observed state of a container (core/v1 ContainerStatus). */
export interface ContainerStatus {
  name: string;
  ready: boolean;
  restartCount: number;
  image: string;
  imageID: string;
  containerID?: string;
  started?: boolean;
  /** The requests that the node has admitted, which the container gets or has. */
  allocatedResources?: Record<string, string | number>;
  /** The resources that the container has. */
  resources?: ResourceRequirements;
  state?: ContainerState;
  lastState?: ContainerState;
}

/** Exactly one field is set (core/v1 ContainerState). */
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
