import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ResourceType } from "@keelson/api-machinery";
import { EndpointSlice, Pod, Service } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { createEventRecorder } from "@keelson/controller/events";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import type { NetworkPolicies } from "../pod-network/network-policies.ts";
import type { PodNetwork } from "../pod-network/pod-network.ts";
import { AddressPool, networkRange, type PodAddressRange } from "./node/address-pool.ts";
import type { NodeContext } from "./node-context.ts";
import type { ContainerHandle } from "./container/container-handle.ts";
import { createNodePressure } from "./pressure/node-pressure.ts";
import { defaultEviction, type EvictionSettings } from "./pressure/thresholds.ts";
import { ServiceNames } from "./node/service-names.ts";
import { createNodeObjects, type IssueToken } from "./node/node-objects.ts";
import { describeNode } from "./node/describe-node.ts";
import { measureDiskUsage } from "./eviction/disk-usage.ts";
import { monitoredPods } from "./eviction/monitored-pods.ts";
import { StorageMonitor } from "./eviction/storage-monitor.ts";
import { machineName } from "./node/machine-name.ts";
import { type Machine, type NodeRegistration, readMachine, registerNode, type Taint } from "./node/node-registration.ts";
import { openPodRuntimes, type PodRuntimes } from "./runtimes/pod-runtimes.ts";
import { subPathDirectory, SubPathMounts } from "./volumes/sub-path-mounts.ts";
import { type MetricsObjects, ResourceMetrics } from "./metrics/resource-metrics.ts";
import { hasNetwork } from "./pod/network/pod-addresses.ts";
import { PodSet } from "./pod/pod-set.ts";
import { steadyTime } from "./steady-time.ts";
import { AllowedSysctls } from "./pod/admission/sysctls.ts";

/** Options of {@link startKubelet}. */
export interface KubeletOptions {
  /** A client with a node's permissions. */
  readonly client: Client;
  /** Directory for Pods and programs. */
  readonly dataDir: string;
  /** Default: this machine's host name. */
  readonly nodeName?: string;
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly log: Logger;
  /** Default: the runtimes of this machine except containerd, closed with the kubelet. A runtime passed in is not closed. */
  readonly runtimes?: PodRuntimes;
  /** The runtime of Pods without a RuntimeClass. Default: `process`. */
  readonly defaultRuntime?: string;
  /** The address of the API for Pods (`KUBERNETES_SERVICE_HOST` and `_PORT`), and its CA in PEM for `ca.crt`. */
  readonly apiServer?: { readonly host: string; readonly port: number; readonly authority?: string };
  /** Gives each Pod in an isolated runtime a network namespace. Default: Pods share the machine's network. */
  readonly network?: PodNetwork;
  /** Isolates Pods of the {@link network} before their programs start. Default: NetworkPolicies are not enforced. */
  readonly policies?: Pick<NetworkPolicies, "admit" | "forget">;
  /** The address of the DNS server of Pods of the {@link network}. Default: names of Services are in their hosts files. */
  readonly clusterDns?: string;
  /** The address of the API for Pods with a network namespace: that of Service `kubernetes`. Default: they get none. */
  readonly clusterApiServer?: { readonly host: string; readonly port: number };
  /** Requests service account tokens for Pods. Default: Pods get no tokens, and volumes that need one fail to mount. */
  readonly issueToken?: IssueToken;
  /** The first two octets of Pod addresses, `127.64` to `127.127`, or of the {@link network}. Default: `127.64`. */
  readonly podNetwork?: string;
  /** The addresses of Pods, which the machine must accept as its own (see `blockRange`), instead of {@link podNetwork}. */
  readonly podAddresses?: PodAddressRange;
  /** The address of the node. Default: `127.0.0.1`. */
  readonly hostIP?: string;
  /**
   * Whether Pods have the node's address instead of one of their own, which only this machine could reach. Pods that listen on the same
   * port conflict. Default false.
   */
  readonly sharesHostAddress?: boolean;
  /** The port of the kubelet's HTTPS API, on the node's address. Default: the node reports none. */
  readonly serverPort?: number;
  /**
   * Kernel parameters that Pods may set beyond the safe ones: names, and patterns that end with `*`. Each must belong to a namespace, see
   * `unsafeSysctlProblem`. Default: none.
   */
  readonly allowedUnsafeSysctls?: readonly string[];
  /** When the node is low on disk space: it then rejects new Pods and evicts others. Default: {@link defaultEviction}. */
  readonly eviction?: EvictionSettings;
  /** Additional labels of the Node. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Taints of the Node when it is created. Default: none. */
  readonly taints?: readonly Taint[];
  /** Whether hosts files name the Pods of headless Services, which requires permission to watch EndpointSlices. Default true. */
  readonly followsEndpointSlices?: boolean;
}

/** A running node. */
export interface Kubelet {
  /** A summary for users. */
  readonly description: string;
  readonly nodeName: string;
  /** A container of a Pod on this node; `undefined` if the Pod or container does not exist. */
  container(namespace: string, pod: string, container: string): ContainerHandle | undefined;
  /** The address of a Pod on this node; `undefined` if the Pod does not exist. */
  address(namespace: string, pod: string): string | undefined;
  /** The current resource usage of the node and its Pods. */
  metrics(): MetricsObjects;
  /** The same as text of the kubelet's `/metrics/resource`, in Prometheus' format. */
  resourceMetrics(): string;
  /** Stops supervising. Programs keep running and are re-adopted by the next start. */
  stop(): Promise<void>;
}

/**
 * Starts a node: registers it and runs the Pods bound to it as programs of this machine, each with its own loopback address. Programs
 * outlive the kubelet: the next start with the same `dataDir` re-adopts running ones without a restart and reports how the others
 * exited.
 */
export async function startKubelet(options: KubeletOptions): Promise<Kubelet> {
  const { client, dataDir, clock, random, log, eviction = defaultEviction } = options;
  const nodeName = options.nodeName ?? machineName();
  await mkdir(join(dataDir, "pods"), { recursive: true, mode: 0o711 });
  const runtimes = options.runtimes ?? (await openPodRuntimes({ dataDir, clock, random }));
  const events = createEventRecorder({ client, clock, random, log, controller: "kubelet", instance: nodeName });
  const names = new ServiceNames(dataDir);
  const machine = await readMachine(dataDir);
  let registration: NodeRegistration | undefined;
  const pressure = createNodePressure({
    ...{ nodeName, clock, log, events, podsDir: join(dataDir, "pods") },
    ...eviction,
    workers: () => pods.workers,
    report: () => void registration?.report(),
  });
  const hasDiskPressure = (): boolean => pressure.isPresent;
  const node = await nodeContext(options, { nodeName, runtimes, events, names, capacity: machine, hasDiskPressure });
  const pods = new PodSet(node, { client, clock, random, log });
  followRuntimes(node, pods);
  await pods.loadRecords();
  pods.scheduleRefresh();
  const registered = await register(options, node, machine).catch(async (error: unknown) => {
    await pods.close();
    if (options.runtimes === undefined) await runtimes.close();
    throw error;
  });
  registration = registered;
  await pressure.start();
  const stopping = new AbortController();
  const followed = await followObjects(options, { nodeName, names, pods, signal: stopping.signal });
  const metrics = new ResourceMetrics({ nodeName, clock, containers: () => pods.runningContainers() });
  const storage = new StorageMonitor({
    clock,
    log,
    pods: () => monitoredPods(pods.workers, node.podsDir),
    measure: measureDiskUsage(clock),
  });
  return {
    description: describeNode(node),
    nodeName,
    container: (namespace, pod, container) => pods.container(namespace, pod, container),
    metrics: () => metrics.objects,
    resourceMetrics: () => metrics.text,
    address: (namespace, pod) => pods.worker(namespace, pod)?.podIP,
    async stop() {
      stopping.abort();
      metrics.stop();
      await Promise.all([storage.stop(), pressure.stop()]);
      await Promise.allSettled(followed);
      await pods.close();
      await registered.stop();
      await events.stop();
      if (options.runtimes === undefined) await runtimes.close();
    },
  };
}

function register(options: KubeletOptions, node: NodeContext, machine: Machine): Promise<NodeRegistration> {
  const { client, clock, log, nodeName, hostIP, hasDiskPressure } = node;
  const { serverPort, labels = {}, taints = [], eviction = defaultEviction } = options;
  return registerNode({
    ...{ client, clock, log, nodeName, hostIP, machine, labels, taints, serverPort, hasDiskPressure },
    thresholds: eviction.thresholds,
    enforcesPolicies: options.policies !== undefined,
  });
}

/** Records changes of the runtimes as events of the Node, and retries Pods that waited for one. */
function followRuntimes({ runtimes, events, nodeName }: NodeContext, pods: PodSet): void {
  runtimes.onChange(({ isAvailable, handler, message }) => {
    const type = isAvailable ? "Normal" : "Warning";
    const reason = isAvailable ? "ContainerRuntimeReady" : "ContainerRuntimeNotReady";
    events.event(
      { apiVersion: "v1", kind: "Node", metadata: { name: nodeName } },
      { type, reason, note: `${handler}: ${message}` },
    );
    if (isAvailable) pods.retry();
  });
}

/** What Pods share on this node. */
async function nodeContext(
  options: KubeletOptions,
  parts: Pick<NodeContext, "nodeName" | "runtimes" | "events" | "capacity" | "hasDiskPressure"> & {
    readonly names: ServiceNames;
  },
): Promise<NodeContext> {
  const { client, dataDir, clock, log, apiServer } = options;
  const { names, ...rest } = parts;
  const { hosts } = names;
  const mayMount = await canMount();
  const nodeParts = { network: options.network, defaultRuntime: options.defaultRuntime ?? "process" };
  return {
    ...rest,
    ...nodeParts,
    ...{ client, clock, log },
    steadyNow: steadyTime(clock),
    objects: createNodeObjects(
      client,
      (namespace) => names.servicesOf(namespace),
      () => clock.now(),
      options.issueToken,
    ),
    addresses: new AddressPool(options.podAddresses ?? networkRange(options.podNetwork ?? "127.64")),
    hostsFile({ metadata, spec }) {
      const file = hosts.file(metadata.namespace ?? "", metadata.uid, spec.hostAliases, spec.hostNetwork);
      names.update();
      return file;
    },
    forgetNamespaceHosts: (namespace) => hosts.forgetNamespace(namespace),
    sweepHosts: (isUsed) => hosts.sweep(isUsed),
    forgetHostsFile: ({ metadata }) => hosts.forget(metadata.namespace ?? "", metadata.uid ?? ""),
    hostIP: options.hostIP ?? "127.0.0.1",
    sharesHostAddress: options.sharesHostAddress ?? false,
    podsDir: join(dataDir, "pods"),
    ...{ policies: options.policies, clusterDns: options.clusterDns },
    sysctls: new AllowedSysctls(options.allowedUnsafeSysctls),
    environment: (pod) => {
      const address = hasNetwork(nodeParts, pod) ? options.clusterApiServer : apiServer;
      return address === undefined ? {} : apiServerVariables(address);
    },
    authority: apiServer?.authority,
    canMount: mayMount,
    subPaths: mayMount ? new SubPathMounts(subPathDirectory(dataDir)) : undefined,
  };
}

function apiServerVariables({
  host,
  port,
}: {
  readonly host: string;
  readonly port: number;
}): Readonly<Record<string, string>> {
  return {
    KUBERNETES_SERVICE_HOST: host,
    KUBERNETES_SERVICE_PORT: String(port),
    KUBERNETES_SERVICE_PORT_HTTPS: String(port),
  };
}

/** Follows Services, EndpointSlices and the node's Pods. Resolves, once Pods are followed, to the informers' runs. */
async function followObjects(
  { client, clock, random, log, followsEndpointSlices = true }: KubeletOptions,
  parts: { readonly nodeName: string; readonly names: ServiceNames; readonly pods: PodSet; readonly signal: AbortSignal },
): Promise<readonly Promise<void>[]> {
  const { nodeName, names, pods, signal } = parts;
  const follow = (type: ResourceType, onEffect: (effect: StoreEffect) => void, fieldSelector?: string): Followed => {
    const selection = fieldSelector === undefined ? {} : { selection: { fieldSelector } };
    const informer = new Informer({ client, type, ...selection, clock, random, log, onEffect });
    return { run: informer.run(signal), listed: informer.listed };
  };
  const services = follow(Service, (effect) => names.applyService(effect));
  const named = [services, ...(followsEndpointSlices ? [follow(EndpointSlice, (effect) => names.applySlice(effect))] : [])];
  await Promise.race([Promise.all(named.map(({ listed }) => listed)), listTimeout(clock)]);
  const own = follow(Pod, (effect) => pods.applyEffect(effect), `spec.nodeName=${nodeName}`);
  return [...named, own].map(({ run }) => run);
}

interface Followed {
  readonly run: Promise<void>;
  readonly listed: Promise<void>;
}

/** A kind that is not served must not block Pods forever. */
function listTimeout(clock: Clock): Promise<void> {
  return new Promise((resolve) => void clock.setTimer(5_000, resolve, { background: true }));
}

/** Whether this process may create a mount namespace and mount in it. */
function canMount(): Promise<boolean> {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return Promise.resolve(false);
  return new Promise((resolve) => {
    const script = "mount -t tmpfs tmpfs /mnt";
    execFile("unshare", ["--mount", "--propagation", "private", "/bin/sh", "-c", script], (error) => resolve(error === null));
  });
}
