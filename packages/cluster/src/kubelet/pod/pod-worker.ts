import type { Program } from "@keelson/execution";
import type { LogTimes } from "../logs/line-filter.ts";
import { ProgramLogs } from "../logs/program-logs.ts";
import { mounted } from "../volumes/mount-marker.ts";
import type { NodeContext } from "../node-context.ts";
import { nextWake, stepPod } from "./machine/pod-machine.ts";
import { planOf, type PodEffect, type PodEvent, type PodState, type ResizeNews } from "./machine/pod-state.ts";
import { type PodView, programId } from "./pod-view.ts";
import { type CheckedAttempt, runContainerProbe, runPostStart } from "../probes/container-checks.ts";
import type { ProbeTarget } from "../probes/probe-runner.ts";
import { startFailure } from "./start-failure.ts";
import { deleteObject } from "./delete-object.ts";
import type { PodRecords } from "./pod-records.ts";
import type { Resources } from "../resources/pod-resources.ts";
import { resizeProgram } from "../container/resize-program.ts";
import { finishedOf } from "./restore.ts";
import { stopContainer } from "../container/stop-container.ts";
import { startProgram } from "../container/start-program.ts";
import { StatusWriter } from "./status/status-writer.ts";
import { terminationMessage } from "../container/termination-message.ts";
import { PodFolder } from "../volumes/pod-folder.ts";

/** Performs the effects of a Pod's state machine and writes its status. One worker per Pod. */
export class PodWorker {
  readonly #node: NodeContext;
  readonly podIP: string;
  readonly #onWake: () => void;
  readonly #onReleased: (worker: PodWorker) => void;
  readonly #stopping = new AbortController();
  readonly #busy = new Set<Promise<void>>();
  readonly #logs: ProgramLogs;
  readonly #folder: PodFolder;
  #state: PodState;
  readonly #status: StatusWriter;
  readonly #records: PodRecords;
  /** Whether the object was deleted from the API. Nothing is written then. */
  #isRemoved = false;

  constructor(options: {
    readonly records: PodRecords;
    readonly node: NodeContext;
    readonly state: PodState;
    readonly podIP: string;
    /** Called when {@link wakeAt} may have changed. */
    readonly onWake: () => void;
    readonly onReleased: (worker: PodWorker) => void;
  }) {
    this.#node = options.node;
    this.#state = options.state;
    this.#records = options.records;
    this.podIP = options.podIP;
    this.#onWake = options.onWake;
    this.#onReleased = options.onReleased;
    this.#logs = new ProgramLogs(options.node.clock);
    this.#folder = new PodFolder(options.node, options.state.pod, options.podIP);
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

  /** Whether the object was deleted from the API, so that the Pod only stops here. */
  get isRemoved(): boolean {
    return this.#isRemoved;
  }

  get wakeAt(): number | undefined {
    return nextWake(this.#state);
  }

  /** Re-adopts running programs, then continues. */
  start(): void {
    for (const record of this.#state.containers) {
      const program = this.program(record.name, record.attempt);
      if (program !== undefined && (record.current.kind === "running" || record.current.kind === "starting")) {
        this.#watch(record.name, record.attempt, program, record.current.kind === "starting");
      }
    }
    this.handle({ kind: "tick" });
  }

  /** Applies a new version of the Pod, with its allocated resources. Without `resize`, the last decision about them stays. */
  update(pod: PodView, resize?: ResizeNews): void {
    this.handle({ kind: "changed", pod, ...(resize !== undefined && { resize }) });
    // Volume files follow their sources once the volumes are set up.
    if (this.#state.setup === "done") this.refresh();
  }

  /** Called when the object was deleted: stops programs and writes nothing. */
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

  /** Updates the files of volumes. */
  refresh(): void {
    if (this.#state.isReleased || (this.pod.spec.volumes ?? []).length === 0) return;
    this.#run(() => this.#folder.refresh(() => (this.#state.isReleased ? undefined : this.pod)));
  }

  /** The program of an attempt of a container. */
  program(container: string, attempt: number): Program | undefined {
    return this.#node.runtimes.program(programId(this.#uid, container, attempt));
  }

  /** The current attempt of a container; `undefined` if the container does not exist. */
  attempt(container: string): number | undefined {
    return this.#state.containers.find(({ name }) => name === container)?.attempt;
  }

  /** The times at which the lines of a program's log were written. */
  logTimes(program: Program): LogTimes {
    return this.#logs.times(program);
  }

  get state(): PodState {
    return this.#state;
  }

  handle(event: PodEvent): void {
    if (this.#stopping.signal.aborted) return;
    const { state, effects } = stepPod(this.#state, event, this.#node.steadyNow());
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
    this.#status.request();
    this.#onWake();
  }

  /** Stops supervising; programs keep running. */
  async close(): Promise<void> {
    this.#stopping.abort();
    this.#logs.close();
    await Promise.allSettled([...this.#busy, this.#status.settled()]);
  }

  #run(action: () => Promise<void>): void {
    const running = action()
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#node.log.warn({ err: error, pod: this.#name }, "pod operation failed");
      })
      .finally(() => this.#busy.delete(running));
    this.#busy.add(running);
  }

  get #uid(): string {
    return this.pod.metadata.uid ?? "";
  }

  get #name(): string {
    return `${this.pod.metadata.namespace}/${this.pod.metadata.name}`;
  }

  #perform(effect: PodEffect): void {
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
      case "resize":
        return this.#run(() => this.#resize(effect.name, effect.attempt, effect.resources));
      case "post-start":
        return this.#run(() => this.#check(runPostStart, effect.name, effect.attempt));
      case "probe":
        return this.#run(() => this.#check(runContainerProbe(effect.probe), effect.name, effect.attempt));
      case "release":
        return this.#run(() => this.#release());
    }
  }

  async #prepare(): Promise<void> {
    try {
      await this.#folder.prepare(this.pod);
    } catch (error) {
      this.handle({ kind: "prepare-failed", message: error instanceof Error ? error.message : String(error) });
      return;
    }
    this.handle({ kind: "prepared" });
  }

  async #start(name: string, attempt: number): Promise<void> {
    try {
      // A program must not have resources that a later kubelet does not know to be allocated.
      await this.#records.settled(this.#uid);
      const addresses = { podIP: this.podIP, volumes: this.#folder.volumes };
      const start = (): Promise<Program | undefined> =>
        startProgram(this.#node, this.pod, planOf(this.pod, name).container, attempt, addresses, this.#stopping.signal);
      const program = this.program(name, attempt) ?? (await start());
      if (program === undefined) return;
      // A program with `stdinOnce` mounts only after its client has connected.
      if (program.spec.input !== "once") await mounted(program);
      this.#watch(name, attempt, program, true);
      // The previous attempt is kept for `logs --previous`; older ones are removed.
      await this.removeProgram(name, attempt - 2);
      await this.#node.subPaths?.release({ podUid: this.#uid, container: name, attempt: attempt - 1 });
    } catch (error) {
      this.handle(startFailure(name, attempt, error, this.#node.clock.now()));
    }
  }

  async #resize(name: string, attempt: number, resources: Resources): Promise<void> {
    const target = { records: this.#records, uid: this.#uid, name, attempt, program: this.program(name, attempt) };
    this.handle(await resizeProgram(target, resources));
  }

  #watch(name: string, attempt: number, program: Program, isNew: boolean): void {
    this.logTimes(program);
    const { state } = program;
    if (isNew && (state.kind === "running" || (state.kind === "exited" && state.reason !== "StartFailed"))) {
      const at = state.startedAt ?? this.#node.clock.now();
      this.handle({ kind: "started", name, attempt, at });
    }
    // Not tracked in #busy: a program may run forever and outlives this process.
    program.exited().then(
      async (exit) => {
        if (this.#stopping.signal.aborted) return;
        const finished = finishedOf(attempt, exit);
        const message =
          finished.message ||
          (await terminationMessage(this.#folder.path, planOf(this.pod, name).container, program, finished));
        this.handle({ kind: "exited", name, finished: { ...finished, message } });
      },
      (error: unknown) =>
        this.#node.log.error({ err: error, pod: this.#name, container: name }, "could not determine the exit status"),
    );
  }

  async #stop(name: string, attempt: number, grace: number): Promise<void> {
    const target = this.#target(name, attempt);
    if (target === undefined) return;
    // Whether it restarts after a resize depends on the allocation.
    await this.#records.settled(this.#uid);
    await stopContainer(target, grace, (problem) => {
      const note = `PreStopHook failed: ${problem}`;
      this.#node.events.event(this.pod, { type: "Warning", reason: "FailedPreStopHook", note });
    });
  }

  async #check(run: (checked: CheckedAttempt) => Promise<PodEvent | undefined>, name: string, attempt: number): Promise<void> {
    const event = await run({ name, attempt, target: this.#target(name, attempt) });
    if (event !== undefined) this.handle(event);
  }

  /** The target of hooks and probes of an attempt; `undefined` if it has no program. */
  #target(name: string, attempt: number): ProbeTarget | undefined {
    const program = this.program(name, attempt);
    if (program === undefined) return undefined;
    return { program, container: planOf(this.pod, name).container, podIP: this.podIP, clock: this.#node.clock };
  }

  /** Removes a finished program of a container with its logs. */
  async removeProgram(container: string, attempt: number): Promise<void> {
    const program = this.program(container, attempt);
    if (program?.state.kind !== "exited") return;
    this.#logs.forget(program);
    await program.remove();
  }

  /** Removes the files of a Pod that has ended. */
  async removeFolder(): Promise<void> {
    await this.#node.subPaths?.releasePod(this.#uid);
    await this.#folder.remove();
  }

  /** Deletes a terminated Pod: writes the last status, then deletes the object, then the Pod's files. */
  async #release(): Promise<void> {
    const uid = this.#uid;
    await this.#status.settled();
    await deleteObject(this.#node, this.pod, () => this.#isRemoved, this.#stopping.signal);
    for (const program of this.#node.runtimes.programs()) {
      if (program.spec.metadata?.["podUid"] !== uid) continue;
      this.#logs.forget(program);
      await program.remove();
    }
    this.#node.forgetHostsFile(this.pod);
    await this.#records.forget(uid);
    await this.removeFolder();
    this.#onReleased(this);
  }
}
