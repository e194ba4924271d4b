import type { Duplex, Readable } from "node:stream";
import type { TerminalSize } from "@keelson/execution";
import type { ReadStream, WriteStream } from "node:tty";
import { encodeFrame, maxFrameBytes } from "../../exec/exec-frames.ts";

/** The size of a terminal; 80x24 for other streams. */
export function terminalSize(stdout: Partial<Pick<WriteStream, "columns" | "rows">>): TerminalSize {
  return { columns: stdout.columns || 80, rows: stdout.rows || 24 };
}

/** Options of {@link forwardInput}. */
export interface ForwardInputOptions {
  readonly socket: Duplex;
  readonly stdin: Readable & Partial<Pick<ReadStream, "isTTY" | "setRawMode">>;
  /** The terminal whose size the command's terminal has; undefined: the command has none. */
  readonly terminal: (Partial<Pick<WriteStream, "columns" | "rows">> & NodeJS.EventEmitter) | undefined;
  readonly takesInput: boolean;
}

/** Sends input and sizes of the terminal to an exec connection. Returns a function that restores the terminal. */
export function forwardInput({ socket, stdin, terminal, takesInput }: ForwardInputOptions): () => void {
  const onResize = (): void => {
    if (terminal !== undefined) socket.write(encodeFrame("resize", Buffer.from(JSON.stringify(terminalSize(terminal)))));
  };
  const onData = (data: Buffer | string): void => {
    const bytes = Buffer.from(data as string);
    let mayContinue = true;
    for (let from = 0; from < bytes.length; from += maxFrameBytes) {
      mayContinue = socket.write(encodeFrame("stdin", bytes.subarray(from, from + maxFrameBytes)));
    }
    if (mayContinue) return;
    stdin.pause();
    socket.once("drain", () => stdin.resume());
  };
  const onEnd = (): void => void socket.write(encodeFrame("endStdin"));
  const isRaw = takesInput && terminal !== undefined && stdin.isTTY === true;
  if (takesInput) {
    if (isRaw) stdin.setRawMode?.(true);
    stdin.on("data", onData).on("end", onEnd);
  } else onEnd();
  terminal?.on("resize", onResize);
  return () => {
    terminal?.off("resize", onResize);
    if (!takesInput) return;
    stdin.off("data", onData).off("end", onEnd).pause();
    if (isRaw) stdin.setRawMode?.(false);
    if ("unref" in stdin && typeof stdin.unref === "function") stdin.unref();
  };
}
