import { once } from "node:events";
import type { Duplex, Readable } from "node:stream";
import type { ExecSession } from "@keelson/execution";
import { type ExecEnd, execChannels, isTerminalSize, readFrames, sendFrame } from "../protocol/exec-frames.ts";

/**
 * Connects a command with whoever asked for it, until it has ended and its output has gone out. Where the other end goes first, the
 * command is killed: nobody sees what it does any more.
 */
export async function serveExec(socket: Duplex, head: Buffer, session: ExecSession): Promise<void> {
  const hungUp = new Promise<void>((resolve) => socket.once("close", resolve)).then(() => session.kill());
  const outputs = [pump(session.stdout, socket, execChannels.stdout)];
  if (session.stderr !== undefined) outputs.push(pump(session.stderr, socket, execChannels.stderr));
  const input = takeInput(socket, head, session).catch(() => void socket.destroy());
  const end: ExecEnd = await session.exited();
  await Promise.all(outputs);
  await sendFrame(socket, execChannels.exit, Buffer.from(JSON.stringify(end)));
  socket.end();
  await Promise.all([input, hungUp]);
}

async function takeInput(socket: Duplex, head: Buffer, session: ExecSession): Promise<void> {
  const { stdin } = session;
  for await (const { channel, data } of readFrames(socket as AsyncIterable<Buffer>, head)) {
    if (channel === execChannels.stdin) {
      // A command that takes no input any more goes on all the same.
      if (stdin.writable && !stdin.write(data)) await Promise.race([once(stdin, "drain").catch(() => {}), session.exited()]);
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
    // The pipe broke with its process: that the process ended is what counts.
  }
}
