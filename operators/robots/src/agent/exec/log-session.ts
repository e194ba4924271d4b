import { Readable, Writable } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import { type ExecSession, type LogPart, type Program, readLog } from "@keelson/execution";
import type { LogsStart, LogStream } from "../../protocol/log-messages.ts";

/** A session whose output is that of a program, as {@link LogPart}s. */
class LogSession implements ExecSession {
  readonly stdin = new Writable({ write: (_chunk, _encoding, done) => done() });
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly #stopped = new AbortController();
  readonly #ends: Promise<void>[] = [];

  constructor(program: Program, { isFollowing, tailLines, streams, from = {} }: LogsStart, clock: Clock) {
    const open = (stream: LogStream): Readable => {
      const position = from[stream];
      const parts = streams.includes(stream)
        ? readLog(program, program.logs[stream], {
            ...{ isFollowing, clock, signal: this.#stopped.signal },
            ...(tailLines === undefined ? {} : { tailLines }),
            ...(position === undefined ? {} : { from: position }),
          })
        : nothing();
      const output = Readable.from(parts, { highWaterMark: 1 });
      this.#ends.push(new Promise((resolve) => output.once("close", resolve)));
      return output;
    };
    this.stdout = open("stdout");
    this.stderr = open("stderr");
  }

  async resize(): Promise<void> {}

  async signal(): Promise<void> {}

  async kill(): Promise<void> {
    this.#stopped.abort();
  }

  async exited(): Promise<{ readonly exitCode: number }> {
    await Promise.all(this.#ends);
    return { exitCode: 0 };
  }
}

async function* nothing(): AsyncGenerator<LogPart> {}

/** Opens the output of a program for a reader. It ends with the program, or with what the program has written so far. */
export const openLogs = (program: Program, start: LogsStart, clock: Clock): ExecSession =>
  new LogSession(program, start, clock);
