import type { Readable } from "node:stream";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { ExecSession, LogPart } from "@keelson/execution";
import {
  execSilenceMs,
  type ExecMessage,
  type ExecReport,
  execWindowBytes,
  maxExecDataBytes,
} from "../../protocol/exec-messages.ts";
import { ExecCredits, ExecWindow } from "../../protocol/exec-window.ts";

type Report = ExecReport extends infer Each ? (Each extends ExecReport ? Omit<Each, "id" | "seq"> : never) : never;

/** Options of a {@link TaskExec}. */
export interface TaskExecOptions {
  readonly id: string;
  readonly session: ExecSession;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly publish: (report: ExecReport) => void;
  /** Resolves when the agent may send more output. */
  readonly pace: () => Promise<void>;
  /** Called once, when the command has ended and its end is reported. */
  readonly onEnd: () => void;
}

/**
 * A command that runs alongside a task's program, or a reader of its output, for a caller of the server. It ends when the caller is silent or its
 * time is over.
 */
export class TaskExec {
  readonly #options: TaskExecOptions;
  readonly #window = new ExecWindow();
  readonly #inputCredits = new ExecCredits();
  readonly #deadline: Timer;
  #silence: Timer | undefined;
  #uncreditedInput = 0;
  #received = 0;
  #sent = 0;
  /** Set once the command is being killed: what its end is reported as. */
  #failure: string | undefined;

  constructor(options: TaskExecOptions) {
    this.#options = options;
    const { clock, timeoutMs } = options;
    this.#deadline = clock.setTimer(timeoutMs, () => this.kill(`the command exceeded its time limit of ${timeoutMs / 1000} s`));
    this.#recordActivity();
    void this.#run();
  }

  /** Handles a message after the start. */
  receive(message: ExecMessage): void {
    if (message.seq <= this.#received || this.#failure !== undefined) return;
    if (message.seq !== this.#received + 1) {
      this.kill("a message to the robot was lost");
      return;
    }
    this.#received = message.seq;
    this.#recordActivity();
    const { session } = this.#options;
    switch (message.kind) {
      case "input": {
        const data = Buffer.from(message.data, "base64");
        this.#uncreditedInput += data.length;
        if (this.#uncreditedInput > execWindowBytes)
          this.kill(`the server sent more than ${execWindowBytes} bytes of input that were not credited`);
        else if (data.length > 0) session.stdin.write(data, () => this.#credit(data.length));
        return;
      }
      case "end-input":
        session.stdin.end();
        return;
      case "resize":
        void session.resize(message);
        return;
      case "credit":
        this.#window.credit(message.bytes);
        return;
      case "close":
        this.kill("the caller disconnected");
        return;
      case "start":
      case "logs":
      case "ping":
        return;
    }
  }

  /** Kills the command and what it started. Its output ends, even if a process survives that keeps it open. */
  kill(reason: string): void {
    if (this.#failure !== undefined) return;
    this.#failure = reason;
    this.#window.close();
    const { session } = this.#options;
    for (const stream of [session.stdin, session.stdout, session.stderr]) stream?.destroy();
    // What it leaves is killed again when the command has exited.
    void session.kill().catch(() => {});
  }

  #recordActivity(): void {
    const { clock } = this.#options;
    this.#silence?.cancel();
    this.#silence = clock.setTimer(execSilenceMs, () => this.kill("the caller has stopped reporting"));
  }

  #credit(bytes: number): void {
    const credited = this.#inputCredits.processed(bytes);
    if (credited === undefined) return;
    this.#uncreditedInput -= credited;
    this.#publish({ kind: "credit", bytes: credited });
  }

  async #run(): Promise<void> {
    const { session, onEnd } = this.#options;
    const streams = [this.#forward("stdout", session.stdout), this.#forward("stderr", session.stderr)];
    const { exitCode } = await session.exited();
    // A process that the command has left behind would outlive it, and may keep its output open.
    await Promise.all([session.kill().catch(() => {}), ...streams]);
    this.#deadline.cancel();
    this.#silence?.cancel();
    session.stdout.destroy();
    session.stderr?.destroy();
    if (this.#failure === undefined) this.#publish({ kind: "exited", exitCode: exitCode & 255 });
    else this.#publish({ kind: "failed", message: this.#failure });
    onEnd();
  }

  async #forward(stream: "stdout" | "stderr", output: Readable | undefined): Promise<void> {
    if (output === undefined) return;
    try {
      for await (const chunk of output as AsyncIterable<Uint8Array | LogPart>) {
        const data = "next" in chunk ? chunk.data : Buffer.from(chunk);
        for (let from = 0; from < data.length; from += maxExecDataBytes) {
          const part = data.subarray(from, from + maxExecDataBytes);
          if (!(await this.#window.take(part.length))) return;
          await this.#options.pace();
          if (this.#failure !== undefined) return;
          const isLast = from + maxExecDataBytes >= data.length;
          const position = isLast && "next" in chunk ? { position: chunk.next } : {};
          this.#publish({ kind: "output", stream, data: part.toString("base64"), ...position });
        }
      }
    } catch {
      // The stream was destroyed with the command.
    }
  }

  #publish(report: Report): void {
    this.#options.publish({ id: this.#options.id, seq: this.#sent++, ...report });
  }
}
