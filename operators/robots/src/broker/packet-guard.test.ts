import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPacketGuard } from "./packet-guard.ts";

/** A PUBLISH to topic "t", QoS 0: the topic takes three of the bytes after the header. */
function publish(length: number): Buffer {
  const header = [0x30];
  let left = length + 3;
  do {
    header.push((left % 128) | (left >= 128 ? 0x80 : 0));
    left = Math.floor(left / 128);
  } while (left > 0);
  return Buffer.concat([Buffer.from(header), Buffer.from([0, 1, 0x74]), Buffer.alloc(length, 0xff)]);
}

describe("createPacketGuard", () => {
  it("accepts packets up to the limit and rejects larger ones, however the bytes are split", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }),
        (lengths, cuts) => {
          const limit = 203;
          const bytes = Buffer.concat(lengths.map(publish));
          const guard = createPacketGuard(limit);
          let isAccepted = true;
          for (let at = 0, turn = 0; at < bytes.length && isAccepted; turn++) {
            const size = cuts[turn % cuts.length] ?? 1;
            isAccepted = guard.accept(bytes.subarray(at, at + size));
            at += size;
          }
          expect(isAccepted).toBe(lengths.every((length) => length + 3 <= limit));
          if (isAccepted) expect([guard.takeCount(), guard.takeCount()]).toEqual([lengths.length, 0]);
        },
      ),
    );
  });

  it("rejects by the header alone, before the packet has arrived", () => {
    expect(createPacketGuard(1000).accept(Buffer.from([0x30, 0xff, 0xff, 0x7f]))).toBe(false);
    expect(createPacketGuard(2 ** 40).accept(Buffer.from([0x30, 0x80, 0x80, 0x80, 0x80, 0x01]))).toBe(false);
  });
});
