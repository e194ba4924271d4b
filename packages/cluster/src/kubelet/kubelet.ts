import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type Clock,
  ConfigMap,
  type DeepReadonly,
  EndpointSlice,
  type EndpointSliceObject,
  type KubernetesObject,
  Pod,
  type ResourceType,
  Secret,
  Service,
  type ServiceObject,
  type Timer,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { createEventRecorder, Informer, type Logger, type StoreEffect } from "@keelson/controller";
import { createProcessDriver, type Driver, type Program } from "@keelson/execution";
import { AddressPool } from "./address-pool.ts";
import type { NodeContext } from "./node-context.ts";
import { HostsFiles } from "./hosts-files.ts";
import type { LogTimes } from "./log-reader.ts";
import { createNodeObjects } from "./node-objects.ts";
import { machineName, readMachine, registerNode } from "./node-registration.ts";
import { newPodState } from "./pod-machine.ts";
import { type PodView, podKey } from "./pod-view.ts";
import { PodWorker } from "./pod-worker.ts";
import { type FoundProgram, restorePodState } from "./restore.ts";

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
  /** Default: a process driver in `dataDir`, closed with the kubelet. */
  readonly driver?: Driver;
  /** Where Pods reach the API, for `KUBERNETES_SERVICE_HOST` and `_PORT`. */
  readonly apiServer?: { readonly host: string; readonly port: number };
  /** Where the node itself is reached. Default `127.0.0.1`. */
  readonly hostIP?: string;
}

/** A container of a Pod as logs and exec find it. */
export interface FoundContainer {
  readonly pod: PodView;
  readonly name: string;
  /** Of the attempt that was asked for; `undefined`: it has not started. */
  readonly program: Program | undefined;
  /** The attempt before, for `--previous`. */
  readonly previous: Program | undefined;
  /** When the lines of a program's log were written. */
  times(program: Program): LogTimes;
}

/** A node that runs Pods. */
export interface Kubelet {
  /** What runs, for people. */
  readonly description: string;
  readonly nodeName: string;
  /** A container of a Pod on this node. `undefined`: the Pod is not here, or has no such container. */
  container(namespace: string, pod: string, container: string): FoundContainer | undefined;
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
  const driver = options.driver ?? (await createProcessDriver({ dir: join(dataDir, "programs"), clock, random }));
  const machine = readMachine();
  const events = createEventRecorder({ client, clock, random, log, controller: "kubelet", instance: nodeName });
  const services = new Map<string, DeepReadonly<ServiceObject>>();
  const slices = new Map<string, DeepReadonly<EndpointSliceObject>>();
  const hosts = new HostsFiles(join(dataDir, "hosts"));
  const namesChanged = (): void => hosts.update([...services.values()], [...slices.values()]);
  const node: NodeContext = {
    client,
    clock,
    log,
    driver,
    events,
    objects: createNodeObjects(
      client,
      (namespace) => [...services.values()].filter(({ metadata }) => metadata.namespace === namespace),
      () => clock.now(),
    ),
    addresses: new AddressPool(),
    hostsFile(namespace) {
      const file = hosts.file(namespace);
      namesChanged();
      return file;
    },
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
    capacity: machine,
    canMount: await canMount(),
  };
  const pods = new PodSet(node);
  await pods.recall();
  const registration = await registerNode({ client, clock, log, nodeName, hostIP, machine });

  const stopping = new AbortController();
  const follow = (type: ResourceType, onEffect: (effect: StoreEffect) => void): { readonly run: Promise<void>; readonly listed: Promise<void> } => {
    const informer = new Informer({ client, type, clock, random, log, onEffect });
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
    follow(ConfigMap, (effect) => pods.sourceChanged("configMap", effect)),
    follow(Secret, (effect) => pods.sourceChanged("secret", effect)),
  ];
  await Promise.race([Promise.all(followed.map(({ listed }) => listed)), registrationTimeout(clock)]);
  followed.push(follow(Pod, (effect) => pods.take(effect)));
  return {
    description: `${nodeName}: pods are programs of this machine${node.canMount ? "" : "; volumes cannot be mounted without root"}`,
    nodeName,
    container: (namespace, pod, container) => pods.container(namespace, pod, container),
    async stop() {
      stopping.abort(new Error("the node stops"));
      await Promise.allSettled(followed.map(({ run }) => run));
      await pods.close();
      await registration.stop();
      await events.stop();
      if (options.driver === undefined) await driver.close();
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

/** What is written down about a Pod besides its programs. */
interface PodRecord {
  readonly namespace: string;
  readonly name: string;
  readonly podIP: string;
}

/** The Pods of this node, their addresses, and one timer for all of them. */
class PodSet {
  readonly #node: NodeContext;
  readonly #workers = new Map<string, PodWorker>();
  readonly #records = new Map<string, PodRecord>();
  readonly #starting = new Set<string>();
  #timer: Timer | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #isArming = false;
  #isClosed = false;

  constructor(node: NodeContext) {
    this.#node = node;
  }

  /** Reads what an earlier kubelet wrote down. */
  async recall(): Promise<void> {
    for (const uid of await readdir(this.#node.podsDir)) {
      try {
        const record = JSON.parse(await readFile(join(this.#node.podsDir, uid, "pod.json"), "utf8")) as PodRecord;
        if (this.#node.addresses.keep(uid, record.podIP)) this.#records.set(uid, record);
      } catch {
        // A folder that was being made or removed: it is made anew if the Pod is still there.
      }
    }
  }

  take(effect: StoreEffect): void {
    if (effect.kind === "replace") {
      const here = effect.objects.filter((object) => this.#isMine(object as PodView)) as PodView[];
      const uids = new Set(here.map(({ metadata }) => metadata.uid ?? ""));
      for (const pod of here) this.#put(pod);
      for (const [uid, worker] of this.#workers) if (!uids.has(uid)) worker.remove();
      void this.#sweep(uids);
    } else if (effect.kind === "put") {
      if (this.#isMine(effect.object as PodView)) this.#put(effect.object as PodView);
    } else this.#workers.get(effect.object.metadata.uid ?? "")?.remove();
  }

  /** A ConfigMap or Secret changed: files follow, and what waited for it is tried again. */
  sourceChanged(kind: "configMap" | "secret", effect: StoreEffect): void {
    if (effect.kind === "replace") return;
    const { namespace, name } = effect.object.metadata;
    for (const worker of this.#workers.values()) {
      if (worker.pod.metadata.namespace === namespace && names(worker.pod, kind, name ?? "")) worker.update(worker.pod);
    }
  }

  container(namespace: string, pod: string, name: string): FoundContainer | undefined {
    for (const worker of this.#workers.values()) {
      if (worker.pod.metadata.namespace !== namespace || worker.pod.metadata.name !== pod) continue;
      const attempt = worker.attempt(name);
      if (attempt === undefined) return undefined;
      const current = worker.program(name, attempt);
      const before = worker.program(name, attempt - 1);
      // During the back-off the attempt that is to come has no program yet: its log is the last one's.
      return { pod: worker.pod, name, program: current ?? before, previous: current === undefined ? worker.program(name, attempt - 2) ?? before : before, times: (program) => worker.logTimes(program) };
    }
    return undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await Promise.allSettled([...this.#workers.values()].map((worker) => worker.close()));
  }

  #isMine(pod: PodView): boolean {
    return pod.spec.nodeName === this.#node.nodeName;
  }

  #put(pod: PodView): void {
    const uid = pod.metadata.uid ?? "";
    const worker = this.#workers.get(uid);
    if (worker !== undefined) {
      worker.update(pod);
      return;
    }
    this.#begin(uid, pod, this.#programs(uid));
  }

  #begin(uid: string, pod: PodView, programs: readonly FoundProgram[]): void {
    if (this.#isClosed || this.#starting.has(uid)) return;
    const { addresses, clock } = this.#node;
    const known = this.#records.get(uid)?.podIP;
    const shown = pod.status?.podIP;
    const podIP = known ?? (shown !== undefined && addresses.keep(uid, shown) ? shown : addresses.take(uid));
    const record = { namespace: pod.metadata.namespace ?? "", name: pod.metadata.name ?? "", podIP };
    this.#records.set(uid, record);
    const isKnown = programs.length > 0 || pod.status?.startTime !== undefined;
    const state = isKnown ? restorePodState(pod, programs, clock.now()) : newPodState(pod, clock.now());
    const worker = new PodWorker({
      node: this.#node,
      state,
      podIP,
      onWake: () => this.#arm(),
      onGone: () => {
        addresses.free(podIP);
        this.#workers.delete(uid);
        this.#records.delete(uid);
      },
    });
    this.#workers.set(uid, worker);
    if (known !== undefined) {
      worker.start();
      return;
    }
    // The address is on the disk before anything learns it.
    this.#starting.add(uid);
    this.#write(uid, record)
      .catch((error: unknown) => this.#node.log.warn({ err: error, pod: podKey(pod) }, "a pod's address was not written down"))
      .finally(() => {
        this.#starting.delete(uid);
        worker.start();
      });
  }

  async #write(uid: string, record: PodRecord): Promise<void> {
    const folder = join(this.#node.podsDir, uid);
    await mkdir(folder, { recursive: true, mode: 0o755 });
    const file = join(folder, "pod.json");
    await writeFile(`${file}.new`, `${JSON.stringify(record)}\n`);
    await rename(`${file}.new`, file);
  }

  #programs(uid: string): FoundProgram[] {
    return this.#node.driver.list().flatMap(({ spec, state }) => {
      const { podUid, container, attempt } = spec.metadata ?? {};
      return podUid === uid && container !== undefined ? [{ container, attempt: Number(attempt), state }] : [];
    });
  }

  /** Stops and removes what belongs to Pods that are gone. */
  async #sweep(uids: ReadonlySet<string>): Promise<void> {
    const { driver, podsDir, log, addresses } = this.#node;
    try {
      for (const program of driver.list()) {
        const uid = program.spec.metadata?.["podUid"];
        if (uid === undefined || uids.has(uid) || this.#workers.has(uid)) continue;
        log.info({ program: program.id }, "a program is stopped: its pod is gone");
        await program.stop();
        await program.remove();
      }
      for (const uid of await readdir(podsDir)) {
        if (uids.has(uid) || this.#workers.has(uid)) continue;
        const record = this.#records.get(uid);
        if (record !== undefined) addresses.free(record.podIP);
        this.#records.delete(uid);
        await rm(join(podsDir, uid), { recursive: true, force: true });
      }
    } catch (error) {
      log.warn({ err: error }, "what pods left behind was not all removed");
    }
  }

  /** One timer, at the nearest time at which any Pod has something to do. */
  #arm(): void {
    if (this.#isArming || this.#isClosed) return;
    this.#isArming = true;
    queueMicrotask(() => {
      this.#isArming = false;
      if (this.#isClosed) return;
      let nearest = Number.POSITIVE_INFINITY;
      for (const worker of this.#workers.values()) nearest = Math.min(nearest, worker.wakeAt ?? nearest);
      if (nearest === this.#timerAt && this.#timer !== undefined) return;
      this.#timer?.cancel();
      this.#timer = undefined;
      this.#timerAt = nearest;
      if (nearest === Number.POSITIVE_INFINITY) return;
      const { clock } = this.#node;
      this.#timer = clock.setTimer(Math.max(nearest - clock.now(), 0), () => this.#tick(), { background: true });
    });
  }

  #tick(): void {
    this.#timer = undefined;
    const now = this.#node.clock.now();
    for (const worker of this.#workers.values()) {
      const { wakeAt } = worker;
      if (wakeAt !== undefined && wakeAt <= now) worker.handle({ kind: "tick" });
    }
    this.#arm();
  }
}

/** Whether a Pod names this ConfigMap or Secret anywhere. */
function names(pod: PodView, kind: "configMap" | "secret", name: string): boolean {
  const text = JSON.stringify(pod.spec);
  return text.includes(kind) && text.includes(JSON.stringify(name));
}
