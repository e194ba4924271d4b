import type { Readable } from "node:stream";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { ExecSession } from "@keelson/execution";
import { whenWritable } from "../protocol/when-writable.ts";
import { OutputBuffer, type OutputPart } from "./output-buffer.ts";
import { ProcessError } from "./process-error.ts";
import type { ProcessStart, ProcessStatus } from "./process-operations.ts";

/** Output that is kept of one process. */
const maxOutputBytes = 512 * 1024;

/** Input that is held for a process that does not read. */
const maxHeldInputBytes = 256 * 1024;

/** How long a write of input waits for a process that does not read. */
const inputWaitMs = 3_000;

/** How long the output of processes that a command has left behind is followed after its exit. */
const lingerMs = 1_000;

/** A command that runs alongside the program of a sandbox, with its last output. */
export class SandboxProcess {
  readonly spec: ProcessStart;
  readonly #session: ExecSession;
  readonly #clock: Clock;
  readonly #output: OutputBuffer;
  readonly #startedMs: number;
  readonly #timeout: Timer | undefined;
  #unattended: Timer | undefined;
  #readers = 0;
  /** Resolves when the process has read what is held, or has exited. Present while a write waits. */
  #reader: Promise<void> | undefined;
  #inputBytes = 0;
  #state: ProcessStatus["state"] = "running";
  #exitCode: number | undefined;

  /** Resolves when the process has exited and its output is complete. */
  readonly ended: Promise<void>;

  constructor(spec: ProcessStart, session: ExecSession, clock: Clock) {
    this.spec = spec;
    this.#session = session;
    this.#clock = clock;
    this.#startedMs = clock.now();
    this.#output = new OutputBuffer(maxOutputBytes, spec.maxUnattendedMs > 0 ? "wait" : "drop");
    if (spec.timeoutMs > 0)
      this.#timeout = clock.setTimer(spec.timeoutMs, () => this.#killAs("timed-out"), { background: true });
    if (!spec.hasInput && spec.terminal === undefined) session.stdin.end();
    this.ended = this.#follow();
    this.#watch();
  }

  get status(): ProcessStatus {
    const { processId, command } = this.spec;
    return {
      ...{ processId, command, startedMs: this.#startedMs, outputBytes: this.#output.bytes, inputBytes: this.#inputBytes },
      state: this.#exitCode === undefined ? "running" : this.#state,
      ...(this.#exitCode !== undefined && { exitCode: this.#exitCode }),
    };
  }

  /** The output from a position on, until the process has ended. */
  async *output(from: number, signal: AbortSignal): AsyncGenerator<OutputPart> {
    this.#readers += 1;
    this.#unattended?.cancel();
    try {
      yield* this.#output.read(from, signal);
    } finally {
      this.#readers -= 1;
      this.#watch();
    }
  }

  /** Writes input at a position; what was accepted before is skipped. Resolves when it was accepted, or after 3 s if it was not. */
  async write(offset: number, data: Buffer, isEnd: boolean): Promise<void> {
    const { stdin } = this.#session;
    if (!this.spec.hasInput) throw new ProcessError("Conflict", "the process was started without stdin");
    if (offset > this.#inputBytes)
      throw new ProcessError("Invalid", `offset: ${offset} must be at most ${this.#inputBytes}, the input accepted so far`);
    const hasMore = (): boolean => offset + data.length > this.#inputBytes;
    if (hasMore() && stdin.writableLength > maxHeldInputBytes) await this.#waitForReader();
    // No await from here on: a repeated write that waited too finds the position.
    if (hasMore()) {
      if (stdin.writableLength > maxHeldInputBytes) return;
      const rest = data.subarray(this.#inputBytes - offset);
      this.#inputBytes += rest.length;
      if (stdin.writable) stdin.write(rest);
    }
    // Takes effect once the process has read what is held.
    if (isEnd) stdin.end();
  }

  resize(size: { readonly columns: number; readonly rows: number }): Promise<void> {
    return this.#session.resize(size);
  }

  signal(signal: NodeJS.Signals): Promise<void> {
    return signal === "SIGKILL" ? this.#session.kill() : this.#session.signal(signal);
  }

  async #follow(): Promise<void> {
    const { stdout, stderr } = this.#session;
    const outputs = Promise.all([
      this.#pump(stdout, "stdout"),
      ...(stderr === undefined ? [] : [this.#pump(stderr, "stderr")]),
    ]);
    const { exitCode } = await this.#session.exited();
    // Ends writes that wait for it to read.
    this.#session.stdin.destroy();
    this.#timeout?.cancel();
    let linger: Timer | undefined;
    const wait = (): void => {
      linger = this.#clock.setTimer(lingerMs, cut, { background: true });
    };
    const cut = (): void => {
      // What a slow reader has not taken yet is kept.
      for (const stream of [stdout, stderr]) if (stream?.readableLength === 0) stream.destroy();
      wait();
    };
    wait();
    await outputs;
    linger?.cancel();
    this.#exitCode = exitCode;
    if (this.#state === "running") this.#state = "exited";
    this.#unattended?.cancel();
    this.#output.end();
  }

  async #pump(from: Readable, kind: "stdout" | "stderr"): Promise<void> {
    try {
      for await (const chunk of from) await this.#output.append(kind, chunk as Buffer);
    } catch {
      // The pipe broke because the process exited, which is reported separately.
    }
  }

  /** Kills the process unless something follows its output in time. */
  #watch(): void {
    const { maxUnattendedMs } = this.spec;
    if (maxUnattendedMs === 0 || this.#readers > 0 || this.#exitCode !== undefined) return;
    this.#unattended?.cancel();
    this.#unattended = this.#clock.setTimer(maxUnattendedMs, () => this.#killAs("abandoned"), { background: true });
  }

  #killAs(state: "timed-out" | "abandoned"): void {
    if (this.#exitCode !== undefined) return;
    this.#state = state;
    // Output that nothing takes must not keep the process from ending.
    if (state === "abandoned") this.#output.end();
    void this.#session.kill();
  }

  async #waitForReader(): Promise<void> {
    const { stdin } = this.#session;
    let timer: Timer | undefined;
    const waited = new Promise<void>((resolve) => {
      timer = this.#clock.setTimer(inputWaitMs, resolve, { background: true });
    });
    // Shared by all writes that wait, so that they add no listeners of their own.
    this.#reader ??= whenWritable(stdin).then(() => void (this.#reader = undefined));
    await Promise.race([this.#reader, waited]);
    timer?.cancel();
  }
}
