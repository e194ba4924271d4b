import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { EndpointSlice, type EndpointSliceObject, Pod, Service, type ServiceObject } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { createEventRecorder, Informer, type Logger, type StoreEffect } from "@keelson/controller";
import { AddressPool } from "./node/address-pool.ts";
import type { NodeContext } from "./node-context.ts";
import type { FoundContainer } from "./container/found-container.ts";
import { HostsFiles } from "./node/hosts-files.ts";
import { createNodeObjects, type IssueToken } from "./node/node-objects.ts";
import { machineName, readMachine, registerNode } from "./node/node-registration.ts";
import { openPodRuntimes, type PodRuntimes } from "./runtimes/pod-runtimes.ts";
import { PodSet } from "./pod/pod-set.ts";
import { steadyTime } from "./steady-time.ts";
import { podKey } from "./pod/pod-view.ts";

/** Options of {@link startKubelet}. */
export interface KubeletOptions {
  /** With the rights of a node. */
  readonly client: Client;
  /** Pods' folders and programs are kept here. */
  readonly dataDir: string;
  /** Default: this machine's host name. */
  readonly nodeName?: string;
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly log: Logger;
  /** What runs Pods. Default: what the machine has besides containerd; closed with the kubelet, as those that are given are not. */
  readonly runtimes?: PodRuntimes;
  /** Where Pods reach the API, for `KUBERNETES_SERVICE_HOST` and `_PORT`. */
  readonly apiServer?: { readonly host: string; readonly port: number /** PEM, for `ca.crt`. */; readonly authority?: string };
  /** Gets service accounts' tokens for Pods. Default: Pods get none, and volumes that need one are not there. */
  readonly issueToken?: IssueToken;
  /** The first two parts of Pods' addresses: `127.64`, the default, to `127.127`. */
  readonly podNetwork?: string;
  /** Where the node itself is reached. Default `127.0.0.1`. */
  readonly hostIP?: string;
}

/** A node that runs Pods. */
export interface Kubelet {
  /** What runs, for people. */
  readonly description: string;
  readonly nodeName: string;
  /** A container of a Pod on this node. `undefined`: the Pod is not here, or has no such container. */
  container(namespace: string, pod: string, container: string): FoundContainer | undefined;
  /** Where the programs of a Pod on this node listen. `undefined`: the Pod is not here. */
  address(namespace: string, pod: string): string | undefined;
  /** Stops supervising. Programs go on and are found again by the next start. */
  stop(): Promise<void>;
}

/**
 * Starts a node: registers it, and runs the Pods that are bound to it as programs of this machine, each with a loopback address
 * of its own. Pods and their programs outlive it: the next start on the same `dataDir` finds them running, restarts none, and
 * knows how the others ended.
 */
export async function startKubelet(options: KubeletOptions): Promise<Kubelet> {
  const { client, dataDir, clock, random, log } = options;
  const nodeName = options.nodeName ?? machineName();
  const hostIP = options.hostIP ?? "127.0.0.1";
  const podsDir = join(dataDir, "pods");
  await mkdir(podsDir, { recursive: true, mode: 0o711 });
  const runtimes = options.runtimes ?? (await openPodRuntimes({ dataDir, clock, random }));
  const machine = readMachine();
  const events = createEventRecorder({ client, clock, random, log, controller: "kubelet", instance: nodeName });
  const services = new Map<string, DeepReadonly<ServiceObject>>();
  const slices = new Map<string, DeepReadonly<EndpointSliceObject>>();
  const hosts = new HostsFiles(join(dataDir, "hosts"));
  const namesChanged = (): void => hosts.update([...services.values()], [...slices.values()]);
  const node: NodeContext = {
    client,
    clock,
    steadyNow: steadyTime(clock),
    log,
    runtimes,
    events,
    objects: createNodeObjects(
      client,
      (namespace) => [...services.values()].filter(({ metadata }) => metadata.namespace === namespace),
      () => clock.now(),
      options.issueToken,
    ),
    addresses: new AddressPool(options.podNetwork),
    hostsFile({ metadata, spec }) {
      const file = hosts.file(metadata.namespace ?? "", metadata.uid, spec.hostAliases);
      namesChanged();
      return file;
    },
    forgetHostsFile: ({ metadata }) => hosts.forget(metadata.namespace ?? "", metadata.uid ?? ""),
    nodeName,
    hostIP,
    podsDir,
    environment:
      options.apiServer === undefined
        ? {}
        : {
            KUBERNETES_SERVICE_HOST: options.apiServer.host,
            KUBERNETES_SERVICE_PORT: String(options.apiServer.port),
            KUBERNETES_SERVICE_PORT_HTTPS: String(options.apiServer.port),
          },
    authority: options.apiServer?.authority,
    capacity: machine,
    canMount: await canMount(),
  };
  const pods = new PodSet(node, { client, clock, random, log });
  runtimes.onChange(({ isThere, handler, message }) => {
    const type = isThere ? "Normal" : "Warning";
    const reason = isThere ? "ContainerRuntimeReady" : "ContainerRuntimeNotReady";
    events.event(
      { apiVersion: "v1", kind: "Node", metadata: { name: nodeName } },
      { type, reason, note: `${handler}: ${message}` },
    );
    if (isThere) pods.retry();
  });
  await pods.recall();
  pods.keepFresh();
  const registration = await registerNode({ client, clock, log, nodeName, hostIP, machine }).catch(async (error: unknown) => {
    await pods.close();
    if (options.runtimes === undefined) await runtimes.close();
    throw error;
  });

  const stopping = new AbortController();
  const follow = (
    type: ResourceType,
    onEffect: (effect: StoreEffect) => void,
    fieldSelector?: string,
  ): { readonly run: Promise<void>; readonly listed: Promise<void> } => {
    const informer = new Informer({
      client,
      type,
      ...(fieldSelector !== undefined && { selection: { fieldSelector } }),
      clock,
      random,
      log,
      onEffect,
    });
    return { run: informer.run(stopping.signal), listed: informer.listed };
  };
  const followed = [
    follow(Service, (effect) => {
      keep(services, effect);
      namesChanged();
    }),
    follow(EndpointSlice, (effect) => {
      keep(slices, effect);
      namesChanged();
    }),
  ];
  await Promise.race([Promise.all(followed.map(({ listed }) => listed)), registrationTimeout(clock)]);
  followed.push(follow(Pod, (effect) => pods.take(effect), `spec.nodeName=${nodeName}`));
  const limits = node.canMount
    ? ""
    : "; without root: no volumes in Pods, no other users (runAsUser), no Services on ports below 1024, names by KEELSON_HOSTS only";
  const others = runtimes.names.filter((name) => name !== "process");
  const classes = others.length === 0 ? "" : ` (runtimeClassName: ${others.join(", ")})`;
  return {
    description: `${nodeName}: pods are programs of this machine${classes}${limits}`,
    nodeName,
    container: (namespace, pod, container) => pods.container(namespace, pod, container),
    address: (namespace, pod) => pods.worker(namespace, pod)?.podIP,
    async stop() {
      stopping.abort(new Error("the node stops"));
      await Promise.allSettled(followed.map(({ run }) => run));
      await pods.close();
      await registration.stop();
      await events.stop();
      if (options.runtimes === undefined) await runtimes.close();
    },
  };
}

/** A kind that is not served must not keep Pods waiting for ever. */
function registrationTimeout(clock: Clock): Promise<void> {
  return new Promise((resolve) => void clock.setTimer(5_000, resolve, { background: true }));
}

/** Whether this process may make a mount namespace and mount in it. */
function canMount(): Promise<boolean> {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return Promise.resolve(false);
  return new Promise((resolve) => {
    const script = "mount -t tmpfs tmpfs /mnt";
    execFile("unshare", ["--mount", "--propagation", "private", "/bin/sh", "-c", script], (error) => resolve(error === null));
  });
}

function keep<T extends KubernetesObject>(map: Map<string, DeepReadonly<T>>, effect: StoreEffect): void {
  if (effect.kind === "replace") {
    map.clear();
    for (const object of effect.objects) map.set(podKey(object), object as DeepReadonly<T>);
  } else if (effect.kind === "put") map.set(podKey(effect.object), effect.object as DeepReadonly<T>);
  else map.delete(podKey(effect.object));
}
