import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { keyId, open, parseKey, seal } from "./sealed-stream.ts";

const key = Buffer.alloc(32, 7);
const salt = Buffer.alloc(32, 9);
const headerLength = 40;
const frameLength = 65_536 + 16;

async function* cut(bytes: Uint8Array, ...lengths: readonly number[]): AsyncGenerator<Uint8Array> {
  let at = 0;
  for (let index = 0; at < bytes.length; index += 1) {
    const length = Math.max(lengths[index % lengths.length] ?? bytes.length, 1);
    yield bytes.subarray(at, at + length);
    at += length;
  }
}

async function collect(data: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of data) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const sealed = (plain: Uint8Array): Promise<Buffer> => collect(seal(cut(plain, 10_000), key, salt));
const opened = (bytes: Uint8Array, secret: Buffer = key): Promise<Buffer> => collect(open(cut(bytes, 50_000), secret));
const plain = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 251));

describe("an encrypted stream", () => {
  it("returns the same bytes for every size and every division into chunks", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(0, 1, 65_535, 65_536, 65_537, 131_072, 200_000),
        fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 3 }),
        fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 3 }),
        async (size, before, after) => {
          const bytes = plain.subarray(0, size);
          const stored = await collect(seal(cut(bytes, ...before), key, salt));
          expect((await collect(open(cut(stored, ...after), key))).equals(bytes)).toBe(true);
        },
      ),
      { numRuns: 30 },
    );
  });

  it("detects every changed byte", async () => {
    const stored = await sealed(plain);
    for (const at of [0, 8, 39, 40, 1_000, headerLength + frameLength, stored.length - 1]) {
      const damaged = Buffer.from(stored);
      damaged.writeUInt8((damaged[at] ?? 0) ^ 1, at);
      await expect(opened(damaged), `byte ${at}`).rejects.toThrow(/damaged|not encrypted/);
    }
  });

  it("detects truncation, including at the end of a chunk", async () => {
    const stored = await sealed(plain);
    for (const length of [0, 20, headerLength, headerLength + 5, headerLength + frameLength, stored.length - 1])
      await expect(opened(stored.subarray(0, length)), `${length} bytes`).rejects.toMatchObject({ name: "BackupError" });
  });

  it("detects chunks that were exchanged or repeated", async () => {
    const stored = await sealed(plain);
    const [header, first, second, rest] = [
      stored.subarray(0, headerLength),
      stored.subarray(headerLength, headerLength + frameLength),
      stored.subarray(headerLength + frameLength, headerLength + 2 * frameLength),
      stored.subarray(headerLength + 2 * frameLength),
    ];
    await expect(opened(Buffer.concat([header, second, first, rest]))).rejects.toMatchObject({ name: "BackupError" });
    await expect(opened(Buffer.concat([header, first, first, second, rest]))).rejects.toMatchObject({ code: "Damaged" });
  });

  it("rejects another key", async () => {
    await expect(opened(await sealed(plain), Buffer.alloc(32, 8))).rejects.toMatchObject({ code: "WrongKey" });
  });
});

describe("a key", () => {
  it("is read as base64 and as hexadecimal digits", () => {
    expect(parseKey(key.toString("base64"))).toEqual(key);
    expect(parseKey(` ${key.toString("hex")}\n`)).toEqual(key);
    expect(keyId(key)).toMatch(/^[0-9a-f]{16}$/);
  });

  it("must have 32 bytes", () => {
    for (const text of ["", "secret", Buffer.alloc(16).toString("base64"), "f".repeat(63), "!".repeat(64)])
      expect(() => parseKey(text), text).toThrow("must be 32 bytes");
  });
});
