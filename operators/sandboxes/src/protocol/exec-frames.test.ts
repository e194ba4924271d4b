import fc from "fast-check";
import { expect, it } from "vitest";
import { encodeFrame, type ExecFrame, isTerminalSize, readFrames } from "./exec-frames.ts";

async function read(chunks: readonly Buffer[], head?: Buffer): Promise<ExecFrame[]> {
  const frames: ExecFrame[] = [];
  for await (const frame of readFrames(
    (async function* () {
      yield* chunks;
    })(),
    head,
  ))
    frames.push(frame);
  return frames;
}

it("reads frames regardless of chunk boundaries", async () => {
  const frame = fc.record({ channel: fc.nat(255), data: fc.uint8Array({ maxLength: 200 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(frame, { maxLength: 8 }), fc.array(fc.nat(40), { maxLength: 40 }), async (frames, cuts) => {
      let bytes = Buffer.concat(frames.map(({ channel, data }) => encodeFrame(channel, data)));
      const chunks: Buffer[] = [];
      for (const cut of cuts) {
        chunks.push(bytes.subarray(0, cut));
        bytes = bytes.subarray(cut);
      }
      const got = await read([...chunks, bytes]);
      expect(got.map(({ channel, data }) => [channel, [...data]])).toEqual(
        frames.map(({ channel, data }) => [channel, [...data]]),
      );
    }),
  );
});

it("reads data of the handshake first, and rejects an oversized frame", async () => {
  expect(await read([], encodeFrame(1, Buffer.from("a")))).toHaveLength(1);
  await expect(read([Buffer.from([0, 0xff, 0xff, 0xff, 0xff])])).rejects.toThrow(/exceeds 1048576/);
});

it.each([
  [{ columns: 80, rows: 24 }, true],
  [{ columns: 0, rows: 24 }, false],
  [{ columns: "80", rows: 24 }, false],
  [null, false],
])("accepts %j as a size: %s", (value, is) => {
  expect(isTerminalSize(value)).toBe(is);
});
