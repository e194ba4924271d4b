import { once } from "node:events";
import { type Duplex, duplexPair } from "node:stream";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { SpdyConnection, type SpdyStream } from "./spdy-connection.ts";
import { controlFrame, dataFrame, finFlag, frameTypes, type SpdyFrame, SpdyFrameReader, words } from "./spdy-frames.ts";
import { SpdyHeaderCodec, type SpdyHeaders } from "./spdy-headers.ts";

let client: Duplex;
let server: Duplex;
let connection: SpdyConnection;
let codec: SpdyHeaderCodec;
let streams: SpdyStream[];
let frames: SpdyFrame[];

beforeEach(() => {
  const [near, far] = duplexPair();
  const reader = new SpdyFrameReader();
  client = near;
  server = far;
  codec = new SpdyHeaderCodec();
  streams = [];
  frames = [];
  client.on("data", (bytes: Buffer) => frames.push(...reader.push(bytes)));
  client.on("error", () => {});
  connection = new SpdyConnection(far, (stream) => streams.push(stream));
});
afterEach(async () => {
  server.destroy();
  client.destroy();
  await connection.closed;
  codec.close();
});

async function open(id: number, headers: SpdyHeaders, flags = 0): Promise<void> {
  const block = await codec.encode(headers);
  client.write(controlFrame(frameTypes.synStream, flags, Buffer.concat([words(id, 0), Buffer.alloc(2), block])));
}
const control = (type: number): Buffer | undefined =>
  frames.find((frame) => frame.kind === "control" && frame.type === type)?.payload;

test("opens streams with lower-case headers and replies to each", async () => {
  await open(1, { StreamType: "data", port: "80" });
  await open(3, { streamtype: "error", port: "80" });
  await expect
    .poll(() => streams.map(({ headers }) => headers))
    .toEqual([
      { streamtype: "data", port: "80" },
      { streamtype: "error", port: "80" },
    ]);
  await expect.poll(() => control(frameTypes.synReply)?.readUInt32BE(0)).toBe(1);
});

test("carries bytes in both directions, and each half ends independently", async () => {
  await open(1, {});
  await expect.poll(() => streams.length).toBe(1);
  const [stream] = streams;
  client.write(Buffer.concat([dataFrame(1, 0, Buffer.from("hel")), dataFrame(1, finFlag, Buffer.from("lo"))]));
  let text = "";
  let isEnded = false;
  stream?.on("data", (part: Buffer) => (text += part.toString()));
  stream?.on("end", () => (isEnded = true));
  await expect.poll(() => isEnded).toBe(true);
  expect(text).toBe("hello");
  stream?.end("answer");
  await expect
    .poll(() => frames.filter(({ kind }) => kind === "data").map(({ payload, flags }) => [payload.toString(), flags]))
    .toEqual([
      ["answer", 0],
      ["", finFlag],
    ]);
});

test("answers the client's pings only", async () => {
  client.write(controlFrame(frameTypes.ping, 0, words(2)));
  client.write(controlFrame(frameTypes.ping, 0, words(7)));
  await expect.poll(() => control(frameTypes.ping)?.readUInt32BE(0)).toBe(7);
});

test("a reset destroys a stream; data for unknown streams is rejected", async () => {
  await open(1, {});
  await expect.poll(() => streams.length).toBe(1);
  const [stream] = streams;
  client.write(controlFrame(frameTypes.rstStream, 0, words(1, 5)));
  await expect.poll(() => stream?.destroyed).toBe(true);
  client.write(dataFrame(9, 0, Buffer.from("x")));
  await expect.poll(() => control(frameTypes.rstStream)?.readUInt32BE(0)).toBe(9);
});

test("an unread stream does not block the others", async () => {
  await open(1, {});
  await open(3, {});
  await expect.poll(() => streams.length).toBe(2);
  for (let sent = 0; sent < 20; sent++) client.write(dataFrame(1, 0, Buffer.alloc(256 * 1024, 1)));
  client.write(dataFrame(3, finFlag, Buffer.from("past it")));
  let text = "";
  for await (const part of streams[1] ?? []) text += String(part);
  expect(text).toBe("past it");
});

test("a client connection opens many streams concurrently", async () => {
  const [near, far] = duplexPair();
  const serving = new SpdyConnection(far, (stream) => void stream.end(`${stream.headers.name}!`));
  const asking = new SpdyConnection(near);
  const texts = Array.from({ length: 30 }, async (_, index) => {
    const stream = await asking.open({ name: `stream ${index}` });
    let text = "";
    for await (const part of stream) text += String(part);
    return text;
  });
  expect(await Promise.all(texts)).toEqual(Array.from({ length: 30 }, (_, index) => `stream ${index}!`));
  asking.close();
  far.end();
  await Promise.all([asking.closed, serving.closed]);
});

test("a slow reader holds back the sender without losing data", async () => {
  await open(1, {});
  await expect.poll(() => streams.length).toBe(1);
  const piece = Buffer.alloc(32 * 1024, 1);
  const total = 1000;
  let sent = 0;
  const write = async (): Promise<void> => {
    for (; sent < total; sent++) if (!client.write(dataFrame(1, 0, piece))) await once(client, "drain");
    client.write(dataFrame(1, finFlag, Buffer.alloc(0)));
  };
  const writing = write();
  for (let turn = 0; turn < 2000; turn++) await new Promise((resolve) => setImmediate(resolve));
  // 8 MiB are buffered.
  expect(sent).toBeGreaterThan(200);
  expect(sent).toBeLessThan(300);
  let bytes = 0;
  for await (const part of streams[0] ?? []) bytes += (part as Buffer).length;
  await writing;
  expect(bytes).toBe(total * piece.length);
});

test.each([
  ["an unknown version", Buffer.from([0x80, 0x09, 0, 1, 0, 0, 0, 0])],
  ["an oversized frame", Buffer.from([0, 0, 0, 1, 0, 0xff, 0xff, 0xff])],
  ["headers that are not zlib data", controlFrame(frameTypes.synStream, 0, Buffer.alloc(40, 7))],
  ["a truncated control frame", controlFrame(frameTypes.ping, 0, Buffer.alloc(1))],
])("%s closes the connection and its streams", async (_name, bytes) => {
  await open(1, {});
  await expect.poll(() => streams.length).toBe(1);
  client.write(bytes);
  await connection.closed;
  expect(streams[0]?.destroyed).toBe(true);
});

test("headers that decompress to more than 16 KiB close the connection", async () => {
  await open(1, { bomb: "x".repeat(1_000_000) });
  await connection.closed;
  expect(streams).toEqual([]);
});

test("frames do not depend on how their bytes are split", () => {
  const bytes = Buffer.concat([
    controlFrame(frameTypes.ping, 0, words(1)),
    dataFrame(1, 0, Buffer.from("some data")),
    dataFrame(3, finFlag, Buffer.alloc(0)),
  ]);
  const whole = [...new SpdyFrameReader().push(bytes)];
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), (sizes) => {
      const reader = new SpdyFrameReader();
      const read: SpdyFrame[] = [];
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        const next = at + (sizes[turn % sizes.length] ?? 1);
        read.push(...reader.push(bytes.subarray(at, next)));
        at = next;
      }
      expect(read).toEqual(whole);
    }),
  );
});
