import { parseJsonObject } from "@keelson/api-machinery";
import type { Timer } from "@keelson/api-machinery/time";
import type { StoreEffect } from "@keelson/controller/informer";
import type { ContainerHandle } from "../container/container-handle.ts";
import type { MeasuredContainer } from "../metrics/resource-metrics.ts";
import type { NodeContext } from "../node-context.ts";
import { isOnNodeAddress } from "./network/pod-addresses.ts";
import { sweepDeletedPods } from "./pod-sweep.ts";
import { rejectionOf } from "./admission/pod-admission.ts";
import { PodRecords } from "./pod-records.ts";
import { PodResizes } from "../resources/pod-resizes.ts";
import { resourcesOf } from "../resources/pod-resources.ts";
import { isProgressing, newPodState, type PodState } from "./machine/pod-state.ts";
import { type PodView, podKey } from "./pod-view.ts";
import { PodWorker } from "./pod-worker.ts";
import { PodSources, type SourceReader } from "./pod-sources.ts";
import { type FoundProgram, restorePodState } from "./restore.ts";

/** Well below the remaining fifth of a token's lifetime when it is renewed. */
const refreshMs = 60_000;

/** The Pods of this node, their addresses, and a single timer for all of them. */
export class PodSet {
  readonly #node: NodeContext;
  readonly #workers = new Map<string, PodWorker>();
  readonly #records: PodRecords;
  readonly #resizes: PodResizes;
  readonly #starting = new Set<string>();
  readonly #sources: PodSources;
  #timer: Timer | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #refreshTimer: Timer | undefined;
  #isArming = false;
  #isClosed = false;

  /** `reader` follows the ConfigMaps and Secrets that Pods reference. */
  constructor(node: NodeContext, reader: SourceReader) {
    this.#node = node;
    this.#records = new PodRecords(node.podsDir);
    this.#resizes = new PodResizes(node, this.#records, (uid) => this.#active(uid));
    this.#sources = new PodSources(reader, (uids, isFirst) => {
      // Update files and retry what waited. A Pod has read the first version itself, unless the object was missing then.
      for (const uid of uids) {
        const worker = this.#workers.get(uid);
        if (worker !== undefined && !(isFirst && isProgressing(worker.state))) worker.update(worker.pod);
      }
    });
  }

  /** Rewrites volume files periodically, which renews tokens. */
  scheduleRefresh(): void {
    this.#refreshTimer = this.#node.clock.setTimer(
      refreshMs,
      () => {
        for (const worker of this.#workers.values()) if (worker.state.setup === "done") worker.refresh();
        this.scheduleRefresh();
      },
      { background: true },
    );
  }

  /** Loads the records of an earlier kubelet. */
  loadRecords(): Promise<void> {
    return this.#records.load((uid, { podIP }) => this.#node.addresses.reserve(uid, podIP));
  }

  /** Called when a runtime becomes available: re-adopts Pods with programs there, and retries Pods that waited for it. */
  retry(): void {
    for (const [uid, worker] of this.#workers) {
      if (isProgressing(worker.state)) continue;
      const programs = this.#programs(uid);
      const isKnown = programs.every(({ container, attempt }) => attempt <= (worker.attempt(container) ?? attempt));
      if (isKnown) worker.update(worker.pod);
      else void this.#restart(uid, worker, programs);
    }
  }

  async #restart(uid: string, worker: PodWorker, programs: readonly FoundProgram[]): Promise<void> {
    await worker.close();
    if (this.#workers.get(uid) !== worker) return;
    this.#workers.delete(uid);
    this.#begin(uid, this.#resizes.desired(uid, worker.pod), programs);
    this.#retryResizes();
  }

  applyEffect(effect: StoreEffect): void {
    if (effect.kind === "replace") {
      const here = effect.objects.filter((object) => this.#isMine(object as PodView)) as PodView[];
      const uids = new Set(here.map(({ metadata }) => metadata.uid ?? ""));
      // Removals first: a new Pod may use the ports of a removed one.
      for (const [uid, worker] of this.#workers) if (!uids.has(uid)) worker.remove();
      for (const pod of here) this.#put(pod);
      void this.#sweep(uids);
    } else if (effect.kind === "put") {
      if (this.#isMine(effect.object as PodView)) this.#put(effect.object as PodView);
    } else this.#workers.get(effect.object.metadata.uid ?? "")?.remove();
    this.#retryResizes();
  }

  container(namespace: string, pod: string, name: string): ContainerHandle | undefined {
    const worker = this.worker(namespace, pod);
    const attempt = worker?.attempt(name);
    if (worker === undefined || attempt === undefined) return undefined;
    const current = worker.program(name, attempt);
    const before = worker.program(name, attempt - 1);
    // During the backoff the next attempt has no program yet, so logs show the previous one.
    return {
      pod: worker.pod,
      name,
      program: current ?? before,
      previous: current === undefined ? (worker.program(name, attempt - 2) ?? before) : before,
      times: (program) => worker.logTimes(program),
      clock: this.#node.clock,
    };
  }

  /** The containers with a running program. */
  runningContainers(): readonly MeasuredContainer[] {
    return [...this.#workers.values()].flatMap((worker) =>
      worker.state.containers.flatMap(({ name, attempt }) => {
        const program = worker.program(name, attempt);
        return program?.state.kind === "running" ? [{ pod: worker.pod, name, program }] : [];
      }),
    );
  }

  /** The workers of all Pods. */
  get workers(): Iterable<PodWorker> {
    return this.#workers.values();
  }

  worker(namespace: string, pod: string): PodWorker | undefined {
    return [...this.#workers.values()].find(
      (worker) => worker.pod.metadata.namespace === namespace && worker.pod.metadata.name === pod,
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#refreshTimer?.cancel();
    await Promise.allSettled([...[...this.#workers.values()].map((worker) => worker.close()), this.#sources.close()]);
  }

  #isMine(pod: PodView): boolean {
    return pod.spec.nodeName === this.#node.nodeName;
  }

  #hasPods(namespace: string): boolean {
    return [...this.#workers.values()].some(({ pod }) => pod.metadata.namespace === namespace);
  }

  #put(pod: PodView): void {
    const uid = pod.metadata.uid ?? "";
    const worker = this.#workers.get(uid);
    if (worker !== undefined) {
      this.#update(uid, worker, pod);
      return;
    }
    this.#begin(uid, pod, this.#programs(uid));
  }

  #update(uid: string, worker: PodWorker, desired: PodView): void {
    const { pod, resize } = this.#resizes.admit(uid, desired);
    worker.update(pod, resize);
  }

  /** Decides again about resizes that wait for resources. */
  #retryResizes(): void {
    for (const { uid, desired } of this.#resizes.waiting()) {
      const worker = this.#workers.get(uid);
      if (worker !== undefined) this.#update(uid, worker, desired);
    }
  }

  /** The Pods that have not ended or been removed from the API, except one, with their allocated resources. */
  #active(uid: string): readonly PodView[] {
    return [...this.#workers]
      .filter(([other, { state, isRemoved }]) => other !== uid && !isRemoved && state.end === undefined)
      .map(([, { pod }]) => pod);
  }

  #begin(uid: string, desired: PodView, programs: readonly FoundProgram[]): void {
    if (this.#isClosed || this.#starting.has(uid)) return;
    const { addresses, steadyNow } = this.#node;
    const pod = this.#resizes.restore(uid, desired);
    const known = this.#records.get(uid)?.podIP;
    const shown = pod.status?.podIP;
    const isOnHost = isOnNodeAddress(this.#node, pod);
    const podIP = isOnHost
      ? this.#node.hostIP
      : (known ?? (shown !== undefined && addresses.reserve(uid, shown) ? shown : addresses.allocate(uid)));
    const { namespace = "", name = "" } = pod.metadata;
    this.#records.set(uid, { allocated: resourcesOf(pod), ...this.#records.get(uid), namespace, name, podIP });
    const isKnown = programs.length > 0 || pod.status?.startTime !== undefined;
    const state = isKnown ? restorePodState(pod, programs, steadyNow()) : this.#admit(pod);
    const worker = new PodWorker({
      node: this.#node,
      records: this.#records,
      state,
      podIP,
      onWake: () => this.#arm(),
      onReleased: () => {
        if (!isOnHost) addresses.release(podIP);
        this.#workers.delete(uid);
        this.#resizes.forget(uid);
        this.#retryResizes();
        this.#sources.release(uid);
        if (!this.#hasPods(namespace)) this.#node.forgetNamespaceHosts(namespace);
      },
    });
    this.#workers.set(uid, worker);
    this.#sources.follow(pod);
    if (known !== undefined) {
      worker.start();
      return;
    }
    // The address is stored before it becomes visible.
    this.#starting.add(uid);
    this.#records
      .write(uid)
      .catch((error: unknown) => this.#node.log.warn({ err: error, pod: podKey(pod) }, "could not store a pod's address"))
      .finally(() => {
        this.#starting.delete(uid);
        worker.start();
      });
  }

  /** The state of a new Pod: failed if this node rejects it. */
  #admit(pod: PodView): PodState {
    const { steadyNow, events } = this.#node;
    const state = newPodState(pod, steadyNow());
    if (pod.metadata.deletionTimestamp !== undefined) return state;
    const rejection = rejectionOf(pod, this.#active(pod.metadata.uid ?? ""), this.#node);
    if (rejection === undefined) return state;
    const { reason, message } = rejection;
    events.event(pod, { type: "Warning", reason, note: message });
    return { ...state, end: "Failed", failure: { reason, message: `Pod was rejected: ${message}` } };
  }

  #programs(uid: string): FoundProgram[] {
    const { actuated = {} } = this.#records.get(uid) ?? {};
    return this.#node.runtimes.programs().flatMap(({ spec, state }) => {
      const { podUid, container, attempt, resources } = spec.metadata ?? {};
      if (podUid !== uid || container === undefined) return [];
      const resized = actuated[container]?.attempt === Number(attempt) ? actuated[container].resources : undefined;
      const known = resized ?? parseJsonObject(resources ?? "");
      return [{ container, attempt: Number(attempt), state, ...(known !== undefined && { resources: known }) }];
    });
  }

  #sweep(uids: ReadonlySet<string>): Promise<void> {
    const isKept = (uid: string): boolean => uids.has(uid) || this.#workers.has(uid);
    this.#node.sweepHosts((namespace) => this.#hasPods(namespace));
    return sweepDeletedPods(this.#node, isKept, (uid) => {
      const record = this.#records.get(uid);
      if (record !== undefined) this.#node.addresses.release(record.podIP);
      void this.#records.forget(uid);
    });
  }

  /** Arms one timer for the earliest wake-up of any Pod. */
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
      const { clock, steadyNow } = this.#node;
      this.#timer = clock.setTimer(Math.max(nearest - steadyNow(), 0), () => this.#tick(), { background: true });
    });
  }

  #tick(): void {
    this.#timer = undefined;
    const now = this.#node.steadyNow();
    for (const worker of this.#workers.values()) {
      const { wakeAt } = worker;
      if (wakeAt !== undefined && wakeAt <= now) worker.handle({ kind: "tick" });
    }
    this.#arm();
  }
}
