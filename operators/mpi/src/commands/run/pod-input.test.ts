import { createHash } from "node:crypto";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Duplex, PassThrough, Readable } from "node:stream";
import { isStatusError } from "@keelson/api-machinery";
import { createHttpTransport } from "@keelson/client";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { forwardsInput, sendPodInput } from "./pod-input.ts";

const sockets: Duplex[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** A server of the remote command protocol that records frames: `[opcode, payload]`. */
async function serve(protocol: string) {
  const frames: [number, Buffer][] = [];
  const paths: string[] = [];
  const server = createServer();
  server.on("upgrade", (request, socket: Duplex) => {
    sockets.push(socket);
    paths.push(request.url ?? "");
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${accept.digest("base64")}\r\nsec-websocket-protocol: ${protocol}\r\n\r\n`,
    );
    let rest = Buffer.alloc(0);
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        const parsed = parseFrame(rest);
        if (parsed === undefined) return;
        frames.push([parsed.opcode, parsed.payload]);
        rest = rest.subarray(parsed.length);
        const isEnd = parsed.opcode === 8 || parsed.payload[0] === 255;
        if (isEnd) socket.end();
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const transport = createHttpTransport({ server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  onTestFinished(() => transport.close());
  return { transport, frames, paths };
}

function parseFrame(bytes: Buffer): { readonly opcode: number; readonly payload: Buffer; readonly length: number } | undefined {
  if (bytes.length < 2) return undefined;
  const short = (bytes[1] ?? 0) & 0x7f;
  const head = short < 126 ? 2 : short === 126 ? 4 : 10;
  if (bytes.length < head) return undefined;
  const size = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  const length = head + 4 + size;
  if (bytes.length < length) return undefined;
  const mask = bytes.subarray(head, head + 4);
  const payload = Buffer.from(bytes.subarray(head + 4, length).map((byte, index) => byte ^ (mask[index & 3] ?? 0)));
  return { opcode: (bytes[0] ?? 0) & 0x0f, payload, length };
}

const options = { pod: { namespace: "default", name: "pi-launcher" }, container: "main" };
const { signal } = new AbortController();

describe("sendPodInput", () => {
  it.each([3, 300, 70_000])("sends %i bytes unchanged, and then the end", async (size) => {
    const { transport, frames, paths } = await serve("v5.channel.k8s.io");
    const input = Buffer.from(Array.from({ length: size }, (_, index) => index % 251));
    await sendPodInput({ ...options, transport, input: Readable.from([input]), signal });
    expect(paths).toEqual(["/api/v1/namespaces/default/pods/pi-launcher/attach?container=main&stdin=true"]);
    const data = frames.filter(([opcode, payload]) => opcode === 2 && payload[0] === 0);
    expect(Buffer.concat(data.map(([, payload]) => payload.subarray(1))).equals(input)).toBe(true);
    expect(frames.at(-1)).toEqual([2, Buffer.from([255, 0])]);
  });

  it("ends the connection with the input if the server does not know the end of a stream", async () => {
    const { transport, frames } = await serve("v4.channel.k8s.io");
    await sendPodInput({ ...options, transport, input: Readable.from([Buffer.from("x")]), signal });
    expect(frames).toEqual([
      [2, Buffer.from([0, 0x78])],
      [8, Buffer.alloc(0)],
    ]);
  });

  it("returns when the container ends before its input", async () => {
    const { transport } = await serve("v5.channel.k8s.io");
    const input = new PassThrough();
    const sending = sendPodInput({ ...options, transport, input, signal });
    await expect.poll(() => sockets.length).toBe(1);
    sockets[0]?.end();
    await sending;
    expect(input.destroyed).toBe(true);
  });

  it("stops when the signal fires", async () => {
    const { transport } = await serve("v5.channel.k8s.io");
    const stop = new AbortController();
    const sending = sendPodInput({ ...options, transport, input: new PassThrough(), signal: stop.signal });
    await expect.poll(() => sockets.length).toBe(1);
    stop.abort(new Error("stopped"));
    await expect(sending).rejects.toThrow("stopped");
  });

  it("reports that the API server refuses", async () => {
    const server = createServer();
    server.on("upgrade", (_, socket) => void socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const transport = createHttpTransport({ server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    onTestFinished(() => transport.close());
    const sending = sendPodInput({ ...options, transport, input: new PassThrough(), signal });
    await expect(sending).rejects.toSatisfy((error) => isStatusError(error, "Forbidden"));
  });
});

describe("forwardsInput", () => {
  it("forwards a file but not a device by default", () => {
    const folder = mkdtempSync(join(tmpdir(), "mpi-input-"));
    writeFileSync(join(folder, "input"), "1\n");
    const [file, device] = [openSync(join(folder, "input"), "r"), openSync("/dev/null", "r")];
    onTestFinished(() => {
      closeSync(file);
      closeSync(device);
      rmSync(folder, { recursive: true });
    });
    expect([forwardsInput("auto", file), forwardsInput("auto", device)]).toEqual([true, false]);
    expect([forwardsInput("always", device), forwardsInput("never", file)]).toEqual([true, false]);
  });
});
