import type { Writable } from "node:stream";
import {
  type ExecSession,
  type ExecSpec,
  ExecutionError,
  type Exited,
  type Program,
  type ProgramSpec,
  type ProgramState,
  type ProgramStats,
  type RunningLimits,
  type StartKind,
  type StopOptions,
  type TerminalSize,
} from "../driver.ts";
import { describeError } from "../files/file-error.ts";
import { writeInput } from "../io/program-input.ts";
import { type LogWatch, watchLogs } from "../logs/log-rotation.ts";
import {
  type LaunchedProgram,
  type LaunchRequest,
  neverRanMessage,
  type PreparedProgram,
  type PreparedSlot,
  StartFailure,
  type Termination,
} from "../process/launcher.ts";
import type { Deadline } from "./deadlines.ts";
import { ExitEvent } from "./exit-event.ts";
import { decideExit, exitContext, type StopReason } from "./program-exit.ts";
import { discardFolder, type ProgramFolder } from "./files/program-folder.ts";
import { PauseSwitch } from "./pause-switch.ts";
import { ProgramLimits } from "./limits/program-limits.ts";
import type { ProgramRecord } from "./files/program-record.ts";
import { checkExec, defaultKillGraceMs, defaultLogRotation } from "./program-spec.ts";
import { ProgramSessions } from "./program-sessions.ts";
import { ProgramStateFile } from "./files/program-state-file.ts";
import { maxStartupMs, type Supervision } from "./supervision.ts";

/**
 * One program: its record on disk, its deadlines and its logs. Every program terminates through `#conclude`, once.
 */
export class SupervisedProgram implements Program {
  readonly id: string;
  readonly spec: ProgramSpec;
  readonly startKind: StartKind;
  readonly logs: { readonly stdout: string; readonly stderr: string };
  readonly #folder: ProgramFolder;
  readonly #file: ProgramStateFile;
  readonly #with: Supervision;
  readonly #exited = new ExitEvent();
  readonly #limits: ProgramLimits;
  #state: ProgramState = { kind: "starting" };
  #launched: LaunchedProgram | undefined;
  #stop: { readonly reason: StopReason } | undefined;
  #killed = false;
  #isDiscarded = false;
  #timeout: Deadline | undefined;
  #grace: Deadline | undefined;
  #logWatch: LogWatch | undefined;
  #detached = false;
  #isAdopted = false;
  readonly #pausing: PauseSwitch;
  readonly #sessions = new ProgramSessions();

  constructor(spec: ProgramSpec, folder: ProgramFolder, supervision: Supervision, startKind: StartKind = "cold") {
    this.id = folder.id;
    this.startKind = startKind;
    this.spec = spec;
    this.logs = { stdout: folder.stdout, stderr: folder.stderr };
    this.#folder = folder;
    this.#file = new ProgramStateFile(folder.state);
    this.#with = supervision;
    this.#limits = new ProgramLimits(folder.id, this.#file, () => this.#running);
    this.#pausing = new PauseSwitch(folder.id, () => (this.#stop === undefined ? this.#running : undefined));
  }

  get state(): ProgramState {
    return this.#state;
  }

  get isPaused(): boolean {
    return this.#pausing.isPaused && this.#state.kind === "running";
  }

  get limits(): Program["limits"] {
    return this.#limits.current;
  }

  /**
   * Starts the program. Resolves when it runs, or has failed to start. Preparation overlaps with writing the spec; the program is
   * released once the spec is on disk. Rejects only if `written` rejects, in which case nothing ran.
   */
  async start(written: Promise<void>, slot?: PreparedSlot): Promise<void> {
    try {
      const { prepared, startedAt } = await this.#prepare(written, slot);
      const launched = await prepared.release();
      this.#supervise(launched, startedAt);
    } catch (error) {
      await written;
      const exitCode = error instanceof StartFailure ? error.exitCode : 126;
      const message = error instanceof StartFailure ? error.message : `could not start the program: ${describeError(error)}`;
      await this.#conclude({ kind: "start-failed", exitCode, message });
    }
  }

  async #prepare(
    written: Promise<void>,
    slot: PreparedSlot | undefined,
  ): Promise<{ readonly prepared: PreparedProgram; readonly startedAt: number }> {
    const { launcher, clock } = this.#with;
    const prepared = await (slot === undefined ? launcher.prepare(this.#request()) : slot.claim(this.#request()));
    try {
      await written;
      const startedAt = clock.now();
      const record = { kind: "running" as const, identity: prepared.identity, startedAt };
      await this.#file.save(record, { isDurable: false }).catch((error: unknown) => {
        const message = `could not start the program: could not write its state: ${describeError(error)}`;
        throw new StartFailure(message, 126);
      });
      return { prepared, startedAt };
    } catch (error) {
      await prepared.abandon();
      throw error;
    }
  }

  /** Adopts a program from an earlier supervisor. */
  async adopt(record: ProgramRecord): Promise<void> {
    this.#file.adopt(record);
    if (record.kind === "exited") {
      this.#state = record.exited;
      this.#exited.resolve(record.exited);
      return;
    }
    if (record.kind === "starting") {
      // Without an identity on disk its shim, if any, was never released.
      await this.#with.launcher.sweep(this.#folder, this.#with.deadlines);
      await this.#conclude({ kind: "lost", message: neverRanMessage });
      return;
    }
    this.#isAdopted = true;
    const launched = await this.#with.launcher.adopt(this.#request(), record.identity);
    await this.#pausing.adopt(launched);
    this.#supervise(launched, record.startedAt);
    if (record.stop !== undefined) void this.stop({ reason: record.stop.reason, graceMs: record.stop.graceMs });
  }

  /** Marks a program with damaged files as lost and kills its remaining processes. */
  async markLost(message: string): Promise<void> {
    await this.#with.launcher.sweep(this.#folder, this.#with.deadlines);
    await this.#conclude({ kind: "lost", message });
  }

  exited(): Promise<Exited> {
    return this.#exited.promise;
  }

  onExit: Program["onExit"] = (listener) => this.#exited.on(listener);

  get cgroupEntries(): readonly string[] {
    return this.#running?.cgroupEntries ?? [];
  }

  signal(signal: NodeJS.Signals): void {
    void this.#launched?.signal(signal);
  }

  async stop({ discard = false, ...options }: StopOptions = {}): Promise<Exited> {
    this.#isDiscarded ||= discard;
    if (this.#state.kind === "exited" || this.#stop !== undefined) return this.#exited.promise;
    const reason = options.reason ?? "Stopped";
    const graceMs = options.graceMs ?? this.spec.killGraceMs ?? defaultKillGraceMs;
    this.#stop = { reason };
    const launched = this.#launched;
    if (launched === undefined) return this.#exited.promise;
    await this.#terminate(launched, reason, graceMs);
    return this.#exited.promise;
  }

  async stats(): Promise<ProgramStats> {
    return this.#running?.stats() ?? { cpuMillis: 0, memoryBytes: 0, pids: 0 };
  }

  pause = (): Promise<void> => this.#pausing.set(true);

  resume = (): Promise<void> => this.#pausing.set(false);

  setLimits = (limits: RunningLimits): Promise<void> => this.#limits.set(limits);

  openInput(): Writable {
    if (this.spec.input === undefined) throw new ExecutionError("Unsupported", `program ${this.id} has no input`);
    if (this.#state.kind !== "running") throw new ExecutionError("NotRunning", `program ${this.id} is not running`);
    const launched = this.spec.input === "once" ? this.#launched : undefined;
    return writeInput(this.#folder.input, this.onExit, () => void launched?.endInput?.());
  }

  async resize(size: TerminalSize): Promise<void> {
    if (this.spec.terminal !== undefined) await this.#running?.resize(size);
  }

  async exec(spec: ExecSpec): Promise<ExecSession> {
    checkExec(spec);
    const launched = this.#running;
    if (launched === undefined) throw new ExecutionError("NotRunning", `program ${this.id} is not running`);
    this.#pausing.requireRunning();
    return this.#sessions.start(launched, spec);
  }

  async remove(): Promise<void> {
    if (this.#state.kind !== "exited")
      throw new ExecutionError("NotEnded", `program ${this.id} is still running; stop it first`);
    await this.#file.settled();
    this.#with.forget(this.id);
    await discardFolder(this.#folder, this.#with.trash, this.#with.clock.now(), this.#with.unmounter);
  }

  /** Stops supervising; the program keeps running. */
  async detach(): Promise<void> {
    this.#detached = true;
    this.#cancelTimers();
    this.#launched?.detach();
    await this.#file.settled();
  }

  get #running(): LaunchedProgram | undefined {
    return this.#state.kind === "running" ? this.#launched : undefined;
  }

  #request(): LaunchRequest {
    return { ...this.#with, spec: this.spec, folder: this.#folder };
  }

  #supervise(launched: LaunchedProgram, startedAt: number): void {
    const { deadlines } = this.#with;
    this.#launched = launched;
    this.#limits.begin(launched);
    this.#state = { kind: "running", pid: launched.pid, startedAt };
    void launched.ended.then((ending) => (this.#detached ? undefined : this.#conclude(ending)));
    if (this.#detached) {
      launched.detach();
      return;
    }
    if (this.#stop !== undefined) {
      // Stopped while it was starting.
      void this.#terminate(launched, this.#stop.reason, this.spec.killGraceMs ?? defaultKillGraceMs);
    } else if (this.spec.timeoutMs !== undefined) {
      // Counted from here, where the program has been released: a timeout must not fire early.
      const elapsedMs = this.#isAdopted ? launched.elapsedMs() - maxStartupMs : 0;
      this.#timeout = deadlines.after(this.spec.timeoutMs - elapsedMs, () => void this.stop({ reason: "Timeout" }));
    }
    const policy = this.spec.logRotation ?? defaultLogRotation;
    this.#logWatch = watchLogs([this.logs.stdout, this.logs.stderr], policy, this.#with);
  }

  async #terminate(launched: LaunchedProgram, reason: StopReason, graceMs: number): Promise<void> {
    this.#timeout?.cancel();
    const { record } = this.#file;
    if (record.kind === "running") {
      // Recorded before the signal: a later supervisor must know that we stopped the program.
      await this.#file.save({ ...record, stop: { reason, graceMs } }, { isDurable: false }).catch(() => {});
    }
    if (this.#state.kind === "exited") return;
    this.#grace = this.#with.deadlines.after(graceMs, () => {
      this.#killed = true;
      void launched.kill();
    });
    await this.#pausing.release(launched);
    if (graceMs > 0) await launched.signal(this.spec.killSignal ?? "SIGTERM");
  }

  #cancelTimers(): void {
    this.#timeout?.cancel();
    this.#grace?.cancel();
    this.#logWatch?.close();
  }

  /** Terminates the program: kills what is left, writes the exit status to disk, then resolves `exited`. */
  async #conclude(termination: Termination): Promise<void> {
    this.#cancelTimers();
    this.#sessions.close();
    // As in a container, remaining processes are killed when the main process exits.
    await this.#launched?.kill();
    await this.#sessions.kill();
    const startedAt = this.#state.kind === "running" ? this.#state.startedAt : undefined;
    const known = { spec: this.spec, stop: this.#stop?.reason, isKilled: this.#killed, startedAt, isAdopted: this.#isAdopted };
    const exited = decideExit(termination, exitContext(termination, known, this.#with.clock.now()));
    await this.#launched?.cleanUp({ isDiscarded: this.#isDiscarded });
    let reported = exited;
    try {
      await this.#file.save({ kind: "exited", exited }, { isDurable: !this.#isDiscarded });
    } catch (error) {
      // The exit file still has the exit code for a later supervisor.
      reported = { ...exited, message: `${exited.message} (could not save the exit status: ${describeError(error)})`.trim() };
    }
    this.#launched?.detach();
    this.#state = reported;
    this.#exited.resolve(reported);
  }
}
