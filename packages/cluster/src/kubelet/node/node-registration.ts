import { arch, cpus, release, totalmem } from "node:os";
import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { isAlreadyExists, isConflict, isNotFound } from "@keelson/api-machinery";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { type BuiltInCondition, Lease, Node, type NodeObject } from "@keelson/api-machinery/kinds";
import { type Clock, formatMicroTime, formatTime, type Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { type Thresholds, thresholdAmount } from "../pressure/thresholds.ts";

/** The renew interval of the Lease, and its duration. */
const renewMs = 10_000;
const leaseSeconds = 40;
/** The interval of status updates without a change. */
const heartbeatMs = 300_000;

/** The capacity of this machine. */
export interface Machine {
  readonly cpu: string;
  readonly memory: string;
  readonly pods: string;
  /** The size of the file system that holds the Pods. */
  readonly "ephemeral-storage": string;
}

/** Reads the {@link Machine} from the operating system. `dataDir` exists and holds the Pods. */
export async function readMachine(dataDir: string): Promise<Machine> {
  const { blocks, bsize } = await statfs(dataDir);
  return {
    cpu: String(Math.max(cpus().length, 1)),
    memory: `${Math.floor(totalmem() / 1024)}Ki`,
    pods: "250",
    "ephemeral-storage": `${Math.floor((blocks * bsize) / 1024)}Ki`,
  };
}

/** What Pods may request: what the thresholds for evictions leave. */
function allocatableOf(capacity: Machine, thresholds: Thresholds): Machine {
  const bytes = quantityToBytes(capacity["ephemeral-storage"]);
  const threshold = thresholds["nodefs.available"];
  const reserved = threshold === undefined ? 0 : thresholdAmount(threshold, bytes);
  return { ...capacity, "ephemeral-storage": String(Math.max(Math.floor(bytes - reserved), 0)) };
}

const sharedNetworkMessage =
  "NetworkPolicies have no effect: Pods share the network of the machine, except with --pod-network namespaces";

/** Builds the status of the Node. */
function nodeStatus(options: {
  readonly machine: Machine;
  readonly hostIP: string;
  readonly nodeName: string;
  readonly serverPort: number | undefined;
  readonly enforcesPolicies: boolean;
  readonly thresholds: Thresholds;
  readonly hasDiskPressure: boolean;
  readonly isReady: boolean;
  readonly before: NodeObject["status"] | undefined;
  readonly now: number;
}): NonNullable<NodeObject["status"]> {
  const { machine, hostIP, nodeName, serverPort, enforcesPolicies, isReady, before, now } = options;
  const { thresholds, hasDiskPressure } = options;
  const condition = (type: string, status: "True" | "False" | "Unknown", reason: string, message: string): BuiltInCondition => {
    const old = before?.conditions?.find((each) => each.type === type);
    return {
      type,
      status,
      reason,
      message,
      lastHeartbeatTime: formatTime(now),
      lastTransitionTime: old?.status === status && old.lastTransitionTime ? old.lastTransitionTime : formatTime(now),
    };
  };
  return {
    capacity: { ...machine },
    allocatable: { ...allocatableOf(machine, thresholds) },
    addresses: [
      { type: "InternalIP", address: hostIP },
      // Omitted if the kubelet API is served: kube-apiserver would prefer it over the InternalIP, and it may not resolve.
      ...(serverPort === undefined ? [{ type: "Hostname", address: nodeName }] : []),
    ],
    conditions: [
      condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
      hasDiskPressure
        ? condition("DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure")
        : condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
      condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
      isReady
        ? condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        : condition("Ready", "False", "KubeletNotReady", "kubelet was shut down; its programs keep running"),
      enforcesPolicies
        ? condition("NetworkPolicyEnforced", "True", "PodNetwork", "NetworkPolicies apply to the networks of Pods")
        : condition("NetworkPolicyEnforced", "False", "SharedNetwork", sharedNetworkMessage),
    ],
    ...(serverPort === undefined ? {} : { daemonEndpoints: { kubeletEndpoint: { Port: serverPort } } }),
    nodeInfo: {
      architecture: arch() === "x64" ? "amd64" : arch(),
      operatingSystem: process.platform,
      kernelVersion: release(),
      osImage: osImage(),
      containerRuntimeVersion: "keelson://0.1.0",
      kubeletVersion: "v1.35.0",
      kubeProxyVersion: "v1.35.0",
      machineID: machineId(),
      systemUUID: machineId(),
      bootID: readText("/proc/sys/kernel/random/boot_id"),
    },
  };
}

/** The id of this machine's installation; `""` if it has none. */
export function machineId(): string {
  return readText("/etc/machine-id");
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}

function osImage(): string {
  return /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(readText("/etc/os-release"))?.[1] ?? process.platform;
}

/** core/v1 Taint. */
export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
}

/** A registered Node. */
export interface NodeRegistration {
  /** Reports a changed status immediately, or with the next renewal of the Lease if that fails. */
  report(): Promise<void>;
  stop(): Promise<void>;
}

/** Options of {@link registerNode}. */
export interface RegistrationOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly nodeName: string;
  readonly hostIP: string;
  readonly machine: Machine;
  /** In addition to the host name, operating system and architecture. */
  readonly labels: Readonly<Record<string, string>>;
  /** Taints of a new Node. Those of an existing one are not changed. */
  readonly taints: readonly Taint[];
  /** The port of the kubelet's HTTPS API. Undefined: not served. */
  readonly serverPort: number | undefined;
  /** Whether NetworkPolicies are enforced, which the `NetworkPolicyEnforced` condition shows. */
  readonly enforcesPolicies: boolean;
  /** When Pods are evicted, which decides what they may request. */
  readonly thresholds: Thresholds;
  /** Whether the node is low on disk space, which the `DiskPressure` condition shows. */
  readonly hasDiskPressure: () => boolean;
}

/** Registers the Node, reports its status and renews its Lease until stopped. Rejects if the Node cannot be registered. */
export async function registerNode(options: RegistrationOptions): Promise<NodeRegistration> {
  const heartbeats = new NodeHeartbeats(options);
  await heartbeats.start();
  return heartbeats;
}

class NodeHeartbeats implements NodeRegistration {
  readonly #options: RegistrationOptions;
  #isStopped = false;
  #timer: Timer | undefined;
  #heartbeat: Promise<void> | undefined;
  /** When the status was last reported, by the monotonic clock. */
  #reportedAt = 0;

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    await this.#register();
    await this.#reportStatus(true);
    await this.#renew();
    this.#reportedAt = this.#options.clock.monotonic();
    this.#arm();
  }

  async report(): Promise<void> {
    this.#reportedAt = Number.NEGATIVE_INFINITY;
    await this.#reportIfDue().catch((error: unknown) =>
      this.#options.log.warn({ err: error }, "could not report the node's status; retrying"),
    );
  }

  async stop(): Promise<void> {
    const { log } = this.#options;
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#heartbeat;
    await this.#reportStatus(false).catch((error: unknown) =>
      log.warn({ err: error }, "could not report the node as not ready"),
    );
  }

  async #register(): Promise<void> {
    const { client, nodeName, taints } = this.#options;
    const labels = {
      ...this.#options.labels,
      "kubernetes.io/hostname": nodeName,
      "kubernetes.io/os": process.platform,
      "kubernetes.io/arch": arch() === "x64" ? "amd64" : arch(),
    };
    try {
      await client.create(Node, {
        metadata: { name: nodeName, labels },
        spec: taints.length === 0 ? {} : { taints: [...taints] },
      });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await client.patch(Node, { name: nodeName }, { type: "merge", body: { metadata: { labels } } });
    }
  }

  async #reportStatus(isReady: boolean): Promise<void> {
    const { client, clock, ...node } = this.#options;
    const key = { name: node.nodeName };
    const before = (await client.get(Node, key)).status as NodeObject["status"];
    const hasDiskPressure = node.hasDiskPressure();
    const status = nodeStatus({ ...node, hasDiskPressure, isReady, before, now: clock.now() });
    await client.patch(Node, key, { type: "strategic", body: { status } }, { subresource: "status" });
  }

  async #renew(): Promise<void> {
    const { client, clock, nodeName } = this.#options;
    const key = { namespace: "kube-node-lease", name: nodeName };
    const spec = { holderIdentity: nodeName, leaseDurationSeconds: leaseSeconds, renewTime: formatMicroTime(clock.now()) };
    try {
      await client.patch(Lease, key, { type: "merge", body: { spec } });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      await client.create(Lease, { metadata: key, spec });
    }
  }

  #arm(): void {
    if (this.#isStopped) return;
    const beat = (): void => {
      this.#heartbeat = this.#beat();
    };
    this.#timer = this.#options.clock.setTimer(renewMs, beat, { background: true });
  }

  async #reportIfDue(): Promise<void> {
    const now = this.#options.clock.monotonic();
    if (this.#isStopped || now - this.#reportedAt < heartbeatMs) return;
    // A change during the report is reported again.
    const before = this.#reportedAt;
    this.#reportedAt = now;
    try {
      await this.#reportStatus(true);
    } catch (error) {
      this.#reportedAt = before;
      throw error;
    }
  }

  async #beat(): Promise<void> {
    const { log } = this.#options;
    try {
      await this.#renew();
      await this.#reportIfDue();
    } catch (error) {
      if (!isConflict(error)) log.warn({ err: error }, "could not renew the node lease; retrying");
    }
    this.#arm();
  }
}
