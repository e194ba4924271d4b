import { randomUUID } from "node:crypto";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { TerminalSize } from "@keelson/execution";
import {
  execPingMs,
  type ExecMessage,
  type ExecReport,
  type ExecStart,
  execWindowBytes,
  maxExecDataBytes,
} from "../protocol/exec-messages.ts";
import { ExecCredits, ExecWindow } from "../protocol/exec-window.ts";
import type { LogsStart } from "../protocol/log-messages.ts";
import { topics } from "../protocol/messages.ts";
import { ExecOutput, type OutputPart } from "./exec-output.ts";

/** What a robot is asked to do. */
type SessionStart = Omit<ExecStart, "issuedAt"> | Omit<LogsStart, "issuedAt">;

type Message = ExecMessage extends infer Each ? (Each extends ExecMessage ? Omit<Each, "id" | "seq"> : never) : never;

/** Maximum number of commands that run at the same time. */
const maxSessions = 64;

/** How a command ended. `isInterrupted`: the robot was lost, or a message to or from it. */
export type ExecEnd = { readonly exitCode: number } | { readonly problem: string; readonly isInterrupted?: boolean };

/** Receives what happens to a command. */
export interface ExecListener {
  /** Processes output; resolves when it accepts more. */
  readonly onOutput: (part: OutputPart) => Promise<void>;
  /** Called once. Nothing follows. */
  readonly onEnd: (end: ExecEnd) => void;
}

/** A command that runs on a robot. */
export interface ExecHandle {
  /** Sends input; resolves when more is accepted. Data after the end is dropped. */
  write(data: Uint8Array): Promise<void>;
  endInput(): void;
  resize(size: TerminalSize): void;
  /** Ends the command. Does nothing if it has ended. */
  close(): void;
}

/** Options of {@link ExecSessions}. */
export interface ExecSessionsOptions {
  readonly clock: Clock;
  /** Sends a message to a robot. It may be lost. */
  readonly send: (robotId: string, topic: string, message: object) => void;
}

/** The commands that this operator runs on robots, over MQTT. They end with the operator. */
export class ExecSessions {
  readonly #options: ExecSessionsOptions;
  readonly #sessions = new Map<string, Session>();

  constructor(options: ExecSessionsOptions) {
    this.#options = options;
  }

  /** Runs a command. Undefined if {@link maxSessions} are running. */
  open(robotId: string, start: SessionStart, listener: ExecListener): ExecHandle | undefined {
    if (this.#sessions.size >= maxSessions) return undefined;
    const id = randomUUID();
    const session = new Session({
      ...{ id, robotId, clock: this.#options.clock, start },
      send: (message) => this.#options.send(robotId, topics.exec(robotId), message),
      listener: {
        ...listener,
        onEnd: (end) => {
          this.#sessions.delete(id);
          listener.onEnd(end);
        },
      },
    });
    this.#sessions.set(id, session);
    return session;
  }

  /** Handles a report of a robot. One about a command on another robot has no effect. */
  receive(robotId: string, report: ExecReport): void {
    const session = this.#sessions.get(report.id);
    if (session?.robotId === robotId) session.receive(report);
  }

  /** Ends the commands on a robot that is no longer connected. */
  robotLost(robotId: string): void {
    for (const session of [...this.#sessions.values()]) {
      if (session.robotId === robotId) {
        session.end({ problem: `robot ${robotId} is no longer connected`, isInterrupted: true });
      }
    }
  }

  /** Ends all commands. */
  stop(): void {
    for (const session of [...this.#sessions.values()]) session.abort("the operator is stopping");
  }
}

interface SessionOptions {
  readonly id: string;
  readonly robotId: string;
  readonly clock: Clock;
  readonly start: SessionStart;
  readonly send: (message: ExecMessage) => void;
  readonly listener: ExecListener;
}

class Session implements ExecHandle {
  readonly #options: SessionOptions;
  readonly #window = new ExecWindow();
  readonly #outputCredits = new ExecCredits();
  readonly #output = new ExecOutput();
  #isDelivering = false;
  /** How the command ended, once the robot has reported it. */
  #reportedEnd: ExecEnd | undefined;
  #ping: Timer | undefined;
  readonly #deadline: Timer;
  #sent = 0;
  #received = 0;
  #hasEnded = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { clock, start } = options;
    this.#send({ ...start, issuedAt: clock.now() });
    this.#keepAlive();
    // The robot ends it; this is for a robot that does not.
    this.#deadline = clock.setTimer(start.timeoutMs + execPingMs, () => {
      this.abort(`the command exceeded its time limit of ${start.timeoutMs / 1000} s`);
    });
  }

  get robotId(): string {
    return this.#options.robotId;
  }

  async write(data: Uint8Array): Promise<void> {
    for (let from = 0; from < data.length; from += maxExecDataBytes) {
      const part = data.subarray(from, from + maxExecDataBytes);
      if (!(await this.#window.take(part.length))) return;
      this.#send({ kind: "input", data: Buffer.from(part).toString("base64") });
    }
  }

  endInput(): void {
    this.#send({ kind: "end-input" });
  }

  resize(size: TerminalSize): void {
    this.#send({ kind: "resize", ...size });
  }

  close(): void {
    this.abort("the caller disconnected");
  }

  /** Ends the command on the robot, and the session. */
  abort(problem: string, isInterrupted = false): void {
    this.#send({ kind: "close" });
    this.end({ problem, ...(isInterrupted && { isInterrupted }) });
  }

  receive(report: ExecReport): void {
    // Nothing follows the end.
    if (report.seq < this.#received || this.#reportedEnd !== undefined) return;
    if (report.seq > this.#received) {
      this.abort("a message from the robot was lost", true);
      return;
    }
    this.#received++;
    switch (report.kind) {
      case "output":
        if (this.#output.add({ ...report, data: Buffer.from(report.data, "base64") })) this.#deliver();
        else this.abort(`the robot sent more than ${execWindowBytes} bytes of output that were not credited`);
        return;
      case "credit":
        this.#window.credit(report.bytes);
        return;
      case "exited":
        this.#reportedEnd = { exitCode: report.exitCode };
        break;
      case "failed":
        this.#reportedEnd = { problem: report.message };
    }
    this.#deliver();
  }

  /** Ends the session. The robot ends the command when it hears nothing of it. */
  end(end: ExecEnd): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#ping?.cancel();
    this.#deadline.cancel();
    this.#window.close();
    this.#output.clear();
    this.#options.listener.onEnd(end);
  }

  /** Passes the output on, and then the end. */
  #deliver(): void {
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    void this.#process().catch((error: unknown) => {
      this.abort(`the output was not delivered: ${error instanceof Error ? error.message : String(error)}`);
    });
  }

  async #process(): Promise<void> {
    let part: OutputPart | undefined;
    while ((part = this.#output.take()) !== undefined) {
      await this.#options.listener.onOutput(part);
      const bytes = this.#outputCredits.processed(part.data.length);
      if (bytes === undefined) continue;
      this.#output.credited(bytes);
      this.#send({ kind: "credit", bytes });
    }
    this.#isDelivering = false;
    if (this.#reportedEnd !== undefined) this.end(this.#reportedEnd);
  }

  #keepAlive(): void {
    this.#ping = this.#options.clock.setTimer(execPingMs, () => {
      this.#send({ kind: "ping" });
      this.#keepAlive();
    });
  }

  #send(message: Message): void {
    if (!this.#hasEnded) this.#options.send({ id: this.#options.id, seq: this.#sent++, ...message });
  }
}
