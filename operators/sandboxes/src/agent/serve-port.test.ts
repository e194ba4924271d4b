import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { type Duplex, duplexPair } from "node:stream";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { systemClock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import { afterEach, beforeEach, expect, it } from "vitest";
import { encodeFrame, execChannels, readFrames } from "../protocol/exec-frames.ts";
import { openPortSocket, servePort } from "./serve-port.ts";

const program = {} as Program;
const forever = new AbortController().signal;
let server: Server;
let port: number;
let hasPort: boolean;
let listeners: Set<() => void>;
const manager = {
  portAddress: () => (hasPort ? "127.0.0.1" : undefined),
  onChange(listener: () => void) {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  },
};

beforeEach(async () => {
  // Answers with its input in capitals once the input has ended.
  server = createServer({ allowHalfOpen: true }, (socket) => {
    let input = "";
    socket.on("data", (data: Buffer) => (input += data.toString())).once("end", () => socket.end(input.toUpperCase()));
    socket.on("error", () => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  port = (server.address() as AddressInfo).port;
  hasPort = true;
  listeners = new Set();
});
afterEach(() => new Promise((resolve) => server.close(resolve)));

it("ends each direction by itself, and marks the end of the output", async () => {
  const [near, far] = duplexPair() as [Duplex, Duplex];
  const target = await openPortSocket({ manager, clock: systemClock, program, port, signal: forever });
  const served = servePort(far, encodeFrame(execChannels.stdin, Buffer.from("ab")), target);
  near.write(encodeFrame(execChannels.stdin, Buffer.from("cd")));
  near.write(encodeFrame(execChannels.closeStdin, Buffer.alloc(0)));
  const frames: [number, string][] = [];
  for await (const { channel, data } of readFrames(near as AsyncIterable<Buffer>)) frames.push([channel, data.toString()]);
  expect(frames).toEqual([
    [execChannels.stdout, "ABCD"],
    [execChannels.exit, ""],
  ]);
  far.destroy();
  await served;
});

it("closes the connection to the port if the caller disconnects", async () => {
  const [near, far] = duplexPair() as [Duplex, Duplex];
  const accepted = once(server, "connection");
  const target = await openPortSocket({ manager, clock: systemClock, program, port, signal: forever });
  await accepted;
  const closed = once(target, "close");
  const served = servePort(far, Buffer.alloc(0), target);
  near.destroy();
  far.destroy();
  await closed;
  await served;
});

it("waits until the agent listens on the port, and never connects before", async () => {
  hasPort = false;
  const clock = createVirtualClock();
  const opening = openPortSocket({ manager, clock, program, port, signal: forever });
  for (const listener of listeners) listener();
  hasPort = true;
  for (const listener of listeners) listener();
  (await opening).destroy();
  hasPort = false;
  const late = openPortSocket({ manager, clock, program, port, signal: forever });
  const refused = expect(late).rejects.toMatchObject({ code: 503, message: expect.stringContaining("does not listen on") });
  await clock.advance(2_000);
  await refused;
  const gone = new AbortController();
  const aborted = openPortSocket({ manager, clock, program, port, signal: gone.signal });
  gone.abort();
  await expect(aborted).rejects.toMatchObject({ code: 503 });
  expect(listeners.size).toBe(0);
});
