import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { isNotFound, isStatusError } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { sleep } from "@keelson/api-machinery/time";
import { ExecutionError, type Program } from "@keelson/execution";
import { ContainerStartError } from "../container/container-program.ts";
import { ContainerConfigError } from "../container/environment.ts";
import { LogClock } from "../logs/log-clock.ts";
import type { LogTimes } from "../logs/log-reader.ts";
import { ImageProblem } from "../runtimes/pod-images.ts";
import { mounted } from "../volumes/mount-marker.ts";
import type { NodeContext } from "../node-context.ts";
import { nextWake, stepPod } from "./pod-machine.ts";
import { type PodEffect, type PodEvent, type PodState, probeSpec } from "./pod-state.ts";
import { type ContainerView, type PodView, plannedContainers, programId } from "./pod-view.ts";
import { type ProbeTarget, runProbe } from "../probes/probe-runner.ts";
import { finishedOf } from "./restore.ts";
import { stopContainer } from "../container/stop-container.ts";
import { startProgram } from "../container/start-program.ts";
import { StatusWriter } from "./status-writer.ts";
import { lastWords } from "../container/termination-message.ts";
import { withTokenVolume } from "../volumes/token-volume.ts";
import { prepareVolumes } from "../volumes/volumes.ts";

/** The most that a postStart hook has. */
const longestHookMs = 600_000;

/** Carries out what the Pod's state machine says, one worker a Pod, and writes the Pod's status. */
export class PodWorker {
  readonly #node: NodeContext;
  readonly #podIP: string;
  readonly #onWake: () => void;
  readonly #onGone: (worker: PodWorker) => void;
  readonly #stopping = new AbortController();
  readonly #busy = new Set<Promise<void>>();
  readonly #logClocks = new Map<string, LogClock>();
  #files: Promise<void> = Promise.resolve();
  #isRefreshDue = false;
  #state: PodState;
  #volumes: ReadonlyMap<string, string> = new Map();
  readonly #status: StatusWriter;
  /** The object is gone from the API: nothing is written any more. */
  #isRemoved = false;

  constructor(options: {
    readonly node: NodeContext;
    readonly state: PodState;
    readonly podIP: string;
    /** The time of {@link wakeAt} may have changed. */
    readonly onWake: () => void;
    readonly onGone: (worker: PodWorker) => void;
  }) {
    this.#node = options.node;
    this.#state = options.state;
    this.#podIP = options.podIP;
    this.#onWake = options.onWake;
    this.#onGone = options.onGone;
    this.#status = new StatusWriter({
      node: options.node,
      podIP: options.podIP,
      state: () => (this.#isRemoved ? undefined : this.#state),
      signal: this.#stopping.signal,
    });
  }

  get pod(): PodView {
    return this.#state.pod;
  }

  get podIP(): string {
    return this.#podIP;
  }

  /** Nothing that it needs is known to be missing. */
  get isGoing(): boolean {
    const { setupProblem, containers } = this.#state;
    return setupProblem === undefined && !containers.some(({ current, retryAt }) => current.kind === "waiting" && retryAt > 0);
  }

  /** Whether an attempt of a container is no later than the one that is tried now. */
  knows(container: string, attempt: number): boolean {
    return attempt <= (this.attempt(container) ?? attempt);
  }

  get wakeAt(): number | undefined {
    return nextWake(this.#state);
  }

  /** Takes over programs that run already, then goes on. */
  start(): void {
    for (const record of this.#state.containers) {
      const program = this.program(record.name, record.attempt);
      if (program !== undefined && (record.current.kind === "running" || record.current.kind === "starting")) {
        this.#watch(record.name, record.attempt, program, record.current.kind === "starting");
      }
    }
    this.handle({ kind: "tick" });
  }

  /** The Pod as the API has it now. */
  update(pod: PodView): void {
    this.handle({ kind: "changed", pod });
    // Files follow their sources; the volumes of a Pod that is set up only change in content.
    if (this.#state.setup === "done") this.refresh();
  }

  /** The object is gone: what runs is stopped, nothing is written. */
  remove(): void {
    this.#isRemoved = true;
    const { pod } = this.#state;
    const deletionTimestamp = pod.metadata.deletionTimestamp ?? new Date(this.#node.clock.now()).toISOString();
    const metadata = {
      ...pod.metadata,
      deletionTimestamp,
      deletionGracePeriodSeconds: Math.min(pod.metadata.deletionGracePeriodSeconds ?? 1, 1),
    };
    this.handle({ kind: "changed", pod: { ...pod, metadata } });
  }

  /** Brings the files of volumes up to date. */
  refresh(): void {
    if (this.#state.isReleased || (this.pod.spec.volumes ?? []).length === 0) return;
    if (this.#isRefreshDue) return;
    this.#isRefreshDue = true;
    this.#run(() =>
      this.#oneByOne(async () => {
        this.#isRefreshDue = false;
        if (!this.#state.isReleased) this.#volumes = await this.#prepareVolumes();
      }),
    );
  }

  /** Whatever touches the Pod's folder does so alone. */
  #oneByOne(action: () => Promise<void>): Promise<void> {
    const done = this.#files.then(action);
    this.#files = done.catch(() => {});
    return done;
  }

  /** The program of an attempt of a container. */
  program(container: string, attempt: number): Program | undefined {
    return this.#node.runtimes.program(programId(this.pod.metadata.uid ?? "", container, attempt));
  }

  /** The current attempt of a container; `undefined`: there is no such container. */
  attempt(container: string): number | undefined {
    return this.#state.containers.find(({ name }) => name === container)?.attempt;
  }

  /** When the lines of a program's log were written. */
  logTimes(program: Program): LogTimes {
    let times = this.#logClocks.get(program.id);
    if (times === undefined) {
      const startedAt =
        program.state.kind === "starting" ? this.#node.clock.now() : (program.state.startedAt ?? this.#node.clock.now());
      times = new LogClock(program.logs.stdout, startedAt, this.#node.clock);
      this.#logClocks.set(program.id, times);
    }
    return times;
  }

  #forgetLog(program: Program | undefined): void {
    if (program === undefined) return;
    this.#logClocks.get(program.id)?.close();
    this.#logClocks.delete(program.id);
  }

  get state(): PodState {
    return this.#state;
  }

  handle(event: PodEvent): void {
    if (this.#stopping.signal.aborted) return;
    const { state, effects } = stepPod(this.#state, event, this.#node.steadyNow());
    this.#state = state;
    for (const effect of effects) this.#carryOut(effect);
    this.#status.request();
    this.#onWake();
  }

  /** Stops supervising; programs go on. */
  async close(): Promise<void> {
    this.#stopping.abort(new Error("the node stops"));
    for (const times of this.#logClocks.values()) times.close();
    await Promise.allSettled([...this.#busy, this.#status.settled()]);
  }

  #run(action: () => Promise<void>): void {
    const running = action()
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted)
          this.#node.log.warn({ err: error, pod: this.#name }, "something went wrong for a pod; it goes on");
      })
      .finally(() => this.#busy.delete(running));
    this.#busy.add(running);
  }

  get #folder(): string {
    return join(this.#node.podsDir, this.pod.metadata.uid ?? "");
  }

  get #name(): string {
    return `${this.pod.metadata.namespace}/${this.pod.metadata.name}`;
  }

  #container(name: string): ContainerView {
    const found = plannedContainers(this.pod).find(({ container }) => container.name === name);
    if (found === undefined) throw new TypeError(`${this.#name} has no container ${name}`);
    return found.container;
  }

  #carryOut(effect: PodEffect): void {
    switch (effect.kind) {
      case "event": {
        const { type, reason, note } = effect;
        if (!this.#isRemoved) this.#node.events.event(this.pod, { type, reason, note });
        return;
      }
      case "prepare":
        return this.#run(() => this.#prepare());
      case "start":
        return this.#run(() => this.#start(effect.name, effect.attempt));
      case "stop":
        return this.#run(() => this.#stop(effect.name, effect.attempt, effect.graceMs));
      case "post-start":
        return this.#run(() => this.#postStart(effect.name, effect.attempt));
      case "probe":
        return this.#run(() => this.#probe(effect.name, effect.attempt, effect.probe));
      case "release":
        return this.#run(() => this.#release());
    }
  }

  async #prepareVolumes(): Promise<ReadonlyMap<string, string>> {
    const { objects, podsDir, hostIP, nodeName, capacity } = this.#node;
    const folder = join(podsDir, this.pod.metadata.uid ?? "", "volumes");
    await mkdir(folder, { recursive: true });
    const hasToken = this.#node.canMount && (await objects.mountsToken(this.pod));
    const pod = hasToken ? withTokenVolume(this.pod) : this.pod;
    return prepareVolumes(pod, folder, {
      ...objectsOf(objects),
      podIP: this.#podIP,
      hostIP,
      nodeName,
      nodeLimits: capacity,
      authority: this.#node.authority,
    });
  }

  async #prepare(): Promise<void> {
    try {
      await this.#oneByOne(async () => {
        this.#volumes = await this.#prepareVolumes();
      });
    } catch (error) {
      this.handle({ kind: "prepare-failed", message: error instanceof Error ? error.message : String(error) });
      return;
    }
    this.handle({ kind: "prepared" });
  }

  async #start(name: string, attempt: number): Promise<void> {
    const { clock } = this.#node;
    try {
      const place = { podIP: this.#podIP, volumes: this.#volumes };
      const start = (): Promise<Program | undefined> =>
        startProgram(this.#node, this.pod, this.#container(name), attempt, place, this.#stopping.signal);
      const program = this.program(name, attempt) ?? (await start());
      if (program === undefined) return;
      // One that waits for its client has no mounts before that is there.
      if (program.spec.input !== "once") await mounted(program);
      this.#watch(name, attempt, program, true);
      // The last attempt is kept for `logs --previous`; older ones go.
      const old = this.program(name, attempt - 2);
      this.#forgetLog(old);
      await old?.remove();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (error instanceof ContainerStartError) {
        const at = clock.now();
        const finished = { attempt, exitCode: error.exitCode, reason: "StartError", message, finishedAt: at };
        this.handle({ kind: "exited", name, finished });
        return;
      }
      const reason =
        error instanceof ImageProblem
          ? error.reason
          : error instanceof ContainerConfigError || isInvalid(error)
            ? "CreateContainerConfigError"
            : "CreateContainerError";
      this.handle({ kind: "refused", name, attempt, reason, message });
    }
  }

  #watch(name: string, attempt: number, program: Program, isNew: boolean): void {
    const { state } = program;
    this.logTimes(program);
    if (isNew && (state.kind === "running" || (state.kind === "exited" && state.reason !== "StartFailed"))) {
      const at = state.startedAt ?? this.#node.clock.now();
      this.handle({ kind: "started", name, attempt, at });
    }
    // Not among the busy: a program may run for ever, and outlives this process.
    program.exited().then(
      async (exit) => {
        if (this.#stopping.signal.aborted) return;
        const finished = finishedOf(attempt, exit);
        const message = finished.message || (await lastWords(this.#folder, this.#container(name), program, finished));
        this.handle({ kind: "exited", name, finished: { ...finished, message } });
      },
      (error: unknown) =>
        this.#node.log.error({ err: error, pod: this.#name, container: name }, "a program's end was not learnt"),
    );
  }

  async #stop(name: string, attempt: number, grace: number): Promise<void> {
    const place = this.#place(name, attempt);
    if (place === undefined) return;
    await stopContainer(place, grace, (problem) => {
      const note = `PreStopHook failed: ${problem}`;
      this.#node.events.event(this.pod, { type: "Warning", reason: "FailedPreStopHook", note });
    });
  }

  async #postStart(name: string, attempt: number): Promise<void> {
    const place = this.#place(name, attempt);
    const hook = place?.container.lifecycle?.postStart;
    if (place === undefined || hook === undefined) return;
    const problem = await runProbe(hook, place, longestHookMs);
    this.handle({
      kind: "hooked",
      name,
      attempt,
      ...(problem === undefined ? {} : { problem: `PostStartHook failed: ${problem}` }),
    });
  }

  async #probe(name: string, attempt: number, kind: "startup" | "liveness" | "readiness"): Promise<void> {
    const place = this.#place(name, attempt);
    const spec = place && probeSpec(place.container, kind);
    if (place === undefined || spec === undefined) return;
    const problem = await runProbe(spec, place, (spec.timeoutSeconds ?? 1) * 1000);
    this.handle({ kind: "probed", name, attempt, probe: kind, ...(problem === undefined ? {} : { problem }) });
  }

  /** Where hooks and probes of an attempt of a container go; `undefined`: it has no program. */
  #place(name: string, attempt: number): ProbeTarget | undefined {
    const program = this.program(name, attempt);
    if (program === undefined) return undefined;
    return { program, container: this.#container(name), podIP: this.#podIP, clock: this.#node.clock };
  }

  /** Everything has ended and the object is to go: the last status first, then the object, then what it left here. */
  async #release(): Promise<void> {
    const { client, clock, runtimes, podsDir } = this.#node;
    const { namespace, name = "", uid = "" } = this.pod.metadata;
    await this.#status.settled();
    for (let pause = 500; !this.#isRemoved; pause = Math.min(pause * 2, 30_000)) {
      try {
        await client.delete(Pod, { namespace, name }, { gracePeriodSeconds: 0, preconditions: { uid } });
        break;
      } catch (error) {
        if (isNotFound(error) || isStatusError(error, "Conflict")) break;
        await sleep(clock, pause, this.#stopping.signal);
      }
    }
    for (const program of runtimes.programs()) {
      if (program.spec.metadata?.["podUid"] !== uid) continue;
      this.#forgetLog(program);
      await program.remove();
    }
    this.#node.forgetHostsFile(this.pod);
    await this.#oneByOne(() => rm(join(podsDir, uid), { recursive: true, force: true }));
    this.#onGone(this);
  }
}

function isInvalid(error: unknown): boolean {
  return error instanceof ExecutionError && error.code === "InvalidSpec";
}

function objectsOf(
  objects: NodeContext["objects"],
): Pick<NodeContext["objects"], "configMap" | "secret" | "claimFolder" | "token"> {
  const { configMap, secret, claimFolder, token } = objects;
  return { configMap, secret, claimFolder, token };
}
