import type { Duplex, Readable } from "node:stream";
import type { ExecSession } from "@keelson/execution";
import { type ExecEnd, execChannels, isTerminalSize, readFrames, sendFrame } from "../protocol/exec-frames.ts";
import { whenWritable } from "../protocol/when-writable.ts";

/**
 * Connects a command with its caller until it has exited and its output is sent. If the caller disconnects first, the command is killed.
 */
export async function serveExec(socket: Duplex, head: Buffer, session: ExecSession): Promise<void> {
  let hasExited = false;
  // What a command has left behind runs on when the command has exited.
  const hungUp = new Promise<void>((resolve) => socket.once("close", resolve)).then(() =>
    hasExited ? undefined : session.kill(),
  );
  const outputs = [pump(session.stdout, socket, execChannels.stdout)];
  if (session.stderr !== undefined) outputs.push(pump(session.stderr, socket, execChannels.stderr));
  const input = takeInput(socket, head, session).catch(() => void socket.destroy());
  const end: ExecEnd = await session.exited();
  hasExited = true;
  await Promise.all(outputs);
  await sendFrame(socket, execChannels.exit, Buffer.from(JSON.stringify(end)));
  socket.end();
  await Promise.all([input, hungUp]);
}

async function takeInput(socket: Duplex, head: Buffer, session: ExecSession): Promise<void> {
  const { stdin } = session;
  // Ends a wait for a command that has exited. A reaction to each wait would be kept until then.
  void session.exited().then(() => stdin.destroy());
  for await (const { channel, data } of readFrames(socket as AsyncIterable<Buffer>, head)) {
    if (channel === execChannels.stdin) {
      // A command that no longer reads its input keeps running.
      if (stdin.writable && !stdin.write(data)) await whenWritable(stdin);
    } else if (channel === execChannels.closeStdin) stdin.end();
    else if (channel === execChannels.resize) {
      const size: unknown = JSON.parse(data.toString("utf8"));
      if (isTerminalSize(size)) await session.resize(size);
    }
  }
}

async function pump(from: Readable, socket: Duplex, channel: number): Promise<void> {
  try {
    for await (const chunk of from) await sendFrame(socket, channel, chunk as Buffer);
  } catch {
    // The pipe broke because the process exited, which is reported separately.
  }
}
