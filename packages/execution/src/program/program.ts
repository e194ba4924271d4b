import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { writeFileAtomic } from "../files/atomic-file.ts";
import type { Clock } from "@keelson/api-machinery/time";
import type { Deadline, Deadlines } from "./deadlines.ts";
import { ExecutionError } from "../driver.ts";
import type {
  ExecSession,
  ExecSpec,
  Exited,
  Limits,
  Program,
  ProgramSpec,
  ProgramState,
  ProgramStats,
  TerminalSize,
} from "../driver.ts";
import { describeError } from "../files/file-error.ts";
import { neverRan, StartFailure } from "../process/launcher.ts";
import type { Ending, LaunchedProgram, Launcher, LaunchRequest, PreparedProgram } from "../process/launcher.ts";
import { writeInput } from "../io/program-input.ts";
import { watchLogs } from "../logs/log-rotation.ts";
import type { LogWatch } from "../logs/log-rotation.ts";
import { decideExit } from "./program-exit.ts";
import type { StopReason } from "./program-exit.ts";
import type { ProgramFolder } from "./program-folder.ts";
import { checkExec, defaultKillGraceMs, defaultLogRotation } from "./program-spec.ts";
import { serialiseRecord } from "./program-record.ts";
import type { ProgramRecord } from "./program-record.ts";

/** What a program shares with its driver. */
export interface Supervision {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly launcher: Launcher;
  /** Folder into which a removed program's folder goes before its files are deleted one by one. */
  readonly trash: string;
  readonly forget: (id: string) => void;
}

/**
 * One program: its record on disk, its deadlines, its logs. All that happens to it goes through `#conclude` at the end, once.
 */
export class SupervisedProgram implements Program {
  readonly id: string;
  readonly spec: ProgramSpec;
  readonly logs: { readonly stdout: string; readonly stderr: string };
  readonly #folder: ProgramFolder;
  readonly #with: Supervision;
  readonly #exited: Promise<Exited>;
  #resolveExited: (exited: Exited) => void = () => {};
  #state: ProgramState = { kind: "starting" };
  #limits: { readonly applied: Limits; readonly message?: string } = { applied: {} };
  #launched: LaunchedProgram | undefined;
  #record: ProgramRecord = { kind: "starting" };
  #stop: { readonly reason: StopReason } | undefined;
  #killed = false;
  #timeout: Deadline | undefined;
  #grace: Deadline | undefined;
  #logWatch: LogWatch | undefined;
  #saving: Promise<void> = Promise.resolve();
  #detached = false;
  /** Its own process has ended. */
  #isOver = false;
  readonly #sessions = new Set<ExecSession>();

  constructor(spec: ProgramSpec, folder: ProgramFolder, supervision: Supervision) {
    this.id = folder.id;
    this.spec = spec;
    this.logs = { stdout: folder.stdout, stderr: folder.stderr };
    this.#folder = folder;
    this.#with = supervision;
    this.#exited = new Promise((resolve) => {
      this.#resolveExited = resolve;
    });
  }

  get state(): ProgramState {
    return this.#state;
  }

  get limits(): { readonly applied: Limits; readonly message?: string } {
    return this.#limits;
  }

  /**
   * Starts it. Resolves when it runs, or has ended for want of something that it needs. It is made ready while its spec is still
   * being written, and let run when that is on the disk. Rejects only as `written` does; then nothing ran.
   */
  async start(written: Promise<void>): Promise<void> {
    try {
      const { prepared, startedAt } = await this.#prepare(written);
      const launched = await prepared.release();
      this.#supervise(launched, startedAt);
    } catch (error) {
      await written;
      const exitCode = error instanceof StartFailure ? error.exitCode : 126;
      const message =
        error instanceof StartFailure ? error.message : `The program could not be started: ${describeError(error)}`;
      await this.#conclude({ kind: "start-failed", exitCode, message });
    }
  }

  async #prepare(written: Promise<void>): Promise<{ readonly prepared: PreparedProgram; readonly startedAt: number }> {
    const { launcher, clock } = this.#with;
    const prepared = await launcher.prepare(this.#request());
    try {
      await written;
      const startedAt = clock.now();
      await this.#save({ kind: "running", identity: prepared.identity, startedAt }, false).catch((error: unknown) => {
        const message = `The program could not be started: its state cannot be written: ${describeError(error)}`;
        throw new StartFailure(message, 126);
      });
      return { prepared, startedAt };
    } catch (error) {
      await prepared.abandon();
      throw error;
    }
  }

  /** Takes over from an earlier supervisor. */
  async adopt(record: ProgramRecord): Promise<void> {
    this.#record = record;
    if (record.kind === "exited") {
      this.#state = record.exited;
      this.#resolveExited(record.exited);
      return;
    }
    if (record.kind === "starting") {
      // Its shim, if there was one, had no identity on disk, so its gate was never opened.
      await this.#with.launcher.sweep(this.#folder, this.#with.deadlines);
      await this.#conclude({ kind: "lost", message: neverRan });
      return;
    }
    const launched = await this.#with.launcher.adopt(this.#request(), record.identity);
    this.#supervise(launched, record.startedAt);
    if (record.stop !== undefined) void this.stop({ reason: record.stop.reason, graceMs: record.stop.graceMs });
  }

  /** Ends without ever having been seen: its files are damaged. Whatever runs of it is killed. */
  async lose(message: string): Promise<void> {
    await this.#with.launcher.sweep(this.#folder, this.#with.deadlines);
    await this.#conclude({ kind: "lost", message });
  }

  exited(): Promise<Exited> {
    return this.#exited;
  }

  signal(signal: NodeJS.Signals): void {
    void this.#launched?.signal(signal);
  }

  async stop(options: { readonly graceMs?: number; readonly reason?: StopReason } = {}): Promise<Exited> {
    if (this.#state.kind === "exited" || this.#stop !== undefined) return this.#exited;
    const reason = options.reason ?? "Stopped";
    const graceMs = options.graceMs ?? this.spec.killGraceMs ?? defaultKillGraceMs;
    this.#stop = { reason };
    const launched = this.#launched;
    if (launched === undefined) return this.#exited;
    await this.#terminate(launched, reason, graceMs);
    return this.#exited;
  }

  async stats(): Promise<ProgramStats> {
    if (this.#launched === undefined || this.#state.kind !== "running") return { cpuMillis: 0, memoryBytes: 0, pids: 0 };
    return this.#launched.stats();
  }

  openInput(): Writable {
    if (this.spec.input === undefined) {
      throw new ExecutionError("Unsupported", `Program ${this.id} reads nothing: its spec has no input`);
    }
    if (this.#state.kind !== "running") throw new ExecutionError("NotRunning", `Program ${this.id} is not running`);
    const endInput = this.spec.input === "once" ? this.#launched?.endInput : undefined;
    return writeInput(this.#folder.input, this.#exited, () => void endInput?.());
  }

  async resize(size: TerminalSize): Promise<void> {
    if (this.spec.terminal !== undefined && this.#state.kind === "running") await this.#launched?.resize(size);
  }

  async exec(spec: ExecSpec): Promise<ExecSession> {
    checkExec(spec);
    if (this.#launched === undefined || this.#state.kind !== "running") {
      throw new ExecutionError("NotRunning", `Program ${this.id} is not running: no command can run beside it`);
    }
    const session = await this.#launched.exec(spec);
    // One that was starting when the program ended has not been seen among its processes.
    if (this.#isOver) await session.kill();
    else {
      this.#sessions.add(session);
      void session.exited().then(() => this.#sessions.delete(session));
    }
    return session;
  }

  async remove(): Promise<void> {
    if (this.#state.kind !== "exited") {
      throw new ExecutionError("NotEnded", `Program ${this.id} has not ended; stop it before it is removed`);
    }
    await this.#saving.catch(() => {});
    this.#with.forget(this.id);
    // In one step, so that a crash leaves the program whole or gone.
    const trashed = join(this.#with.trash, `${this.#folder.tag}-${this.#with.clock.now().toString(36)}`);
    try {
      await rename(this.#folder.path, trashed);
    } catch {
      await rm(this.#folder.path, { recursive: true, force: true });
    }
    await rm(trashed, { recursive: true, force: true });
  }

  /** Stops supervising; the program goes on. */
  async detach(): Promise<void> {
    this.#detached = true;
    this.#quiet();
    this.#launched?.detach();
    await this.#saving.catch(() => {});
  }

  #request(): LaunchRequest {
    return { spec: this.spec, folder: this.#folder, deadlines: this.#with.deadlines };
  }

  #supervise(launched: LaunchedProgram, startedAt: number): void {
    const { deadlines, clock } = this.#with;
    this.#launched = launched;
    this.#limits = launched.limits;
    this.#state = { kind: "running", pid: launched.pid, startedAt };
    void launched.ended.then((ending) => (this.#detached ? undefined : this.#conclude(ending)));
    if (this.#detached) {
      launched.detach();
      return;
    }
    if (this.#stop !== undefined) {
      // A stop that came while it was starting.
      void this.#terminate(launched, this.#stop.reason, this.spec.killGraceMs ?? defaultKillGraceMs);
    } else if (this.spec.timeoutMs !== undefined) {
      this.#timeout = deadlines.after(this.spec.timeoutMs - launched.elapsedMs(), () => void this.stop({ reason: "Timeout" }));
    }
    const policy = this.spec.logRotation ?? defaultLogRotation;
    this.#logWatch = watchLogs([this.logs.stdout, this.logs.stderr], policy, deadlines, () => clock.monotonic());
  }

  async #terminate(launched: LaunchedProgram, reason: StopReason, graceMs: number): Promise<void> {
    this.#timeout?.cancel();
    const record = this.#record;
    if (record.kind === "running") {
      // Before the signal: whoever supervises when the program ends must know that it did not do so by itself.
      await this.#save({ ...record, stop: { reason, graceMs } }, false).catch(() => {});
    }
    if (this.#state.kind === "exited") return;
    this.#grace = this.#with.deadlines.after(graceMs, () => {
      this.#killed = true;
      void launched.kill();
    });
    if (graceMs > 0) await launched.signal(this.spec.killSignal ?? "SIGTERM");
  }

  #quiet(): void {
    this.#timeout?.cancel();
    this.#grace?.cancel();
    this.#logWatch?.close();
  }

  #save(record: ProgramRecord, durable: boolean): Promise<void> {
    this.#record = record;
    this.#saving = this.#saving
      .catch(() => {})
      .then(() => writeFileAtomic(this.#folder.state, serialiseRecord(record), { durable }));
    return this.#saving;
  }

  /** The one end of every program: nothing of it runs, how it ended is on disk, and then everybody is told. */
  async #conclude(ending: Ending): Promise<void> {
    this.#quiet();
    this.#isOver = true;
    // As in a container: what a program leaves behind ends with it.
    await this.#launched?.kill();
    await Promise.all([...this.#sessions].map((session) => session.kill()));
    const startedAt = this.#state.kind === "running" ? this.#state.startedAt : undefined;
    const exited = decideExit(ending, {
      ...(this.#stop !== undefined && { stop: this.#stop.reason }),
      killed: this.#killed,
      killSignal: this.spec.killSignal ?? "SIGTERM",
      ...(this.spec.timeoutMs !== undefined && { timeoutMs: this.spec.timeoutMs }),
      ...(startedAt !== undefined && { startedAt }),
      finishedAt: this.#with.clock.now(),
    });
    await this.#launched?.cleanUp();
    let told = exited;
    try {
      await this.#save({ kind: "exited", exited }, true);
    } catch (error) {
      // The exit file has the code still; a later supervisor reads it there.
      told = { ...exited, message: `${exited.message} (and that could not be written down: ${describeError(error)})`.trim() };
    }
    this.#launched?.detach();
    this.#state = told;
    this.#resolveExited(told);
  }
}

/** Reads a program's file, for the driver that finds it. */
export async function readProgramFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch {
    return undefined;
  }
}
