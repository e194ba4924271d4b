import { isJsonObject } from "@keelson/api-machinery";
import type { CommandContext } from "@keelson/operator";
import type { ExecConnection } from "../../exec/connect-exec.ts";
import { readFrames } from "../../exec/exec-frames.ts";
import { RobotsError } from "../../robots-error.ts";

/**
 * Prints what arrives on a connection until it ends, and closes it. Returns the reported exit status, or 1 if the connection closed before, which
 * `closedMessage` says. **Errors**: `RobotsError` with the reason of a rejected request; the reason of an aborted signal.
 */
export async function printOutput(
  { signal, stdout, stderr }: Pick<CommandContext, "signal" | "stdout" | "stderr">,
  { socket, head }: ExecConnection,
  closedMessage: string,
): Promise<number> {
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    for await (const { type, data } of readFrames(socket, head)) {
      if (type === "exit") return exitCodeOf(data);
      if (type === "error") throw new RobotsError("ExecRejected", messageOf(data));
      if (type === "notice") stderr.write(`${messageOf(data)}\n`);
      if (type !== "stdout" && type !== "stderr") continue;
      const out = type === "stdout" ? stdout : stderr;
      if (!out.write(data)) await new Promise((resolve) => out.once("drain", resolve));
    }
    signal.throwIfAborted();
    stderr.write(`${closedMessage}\n`);
    return 1;
  } finally {
    signal.removeEventListener("abort", onAbort);
    socket.destroy();
  }
}

function exitCodeOf(data: Buffer): number {
  const end: unknown = JSON.parse(data.toString("utf8"));
  return isJsonObject(end) && typeof end.exitCode === "number" ? end.exitCode : 1;
}

function messageOf(data: Buffer): string {
  const end: unknown = JSON.parse(data.toString("utf8"));
  return isJsonObject(end) && typeof end.message === "string" ? end.message : "the command failed";
}
