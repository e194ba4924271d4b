import fc from "fast-check";
import { expect, test } from "vitest";
import { FrameReader } from "./websocket.ts";

/** A client's frame. */
function frame(opcode: number, payload: Buffer, isLast = true): Buffer {
  const mask = Buffer.from([1, 2, 3, 4]);
  const length =
    payload.length < 126
      ? Buffer.from([0x80 | payload.length])
      : Buffer.from([0x80 | 126, payload.length >> 8, payload.length & 0xff]);
  const masked = Buffer.from(payload.map((byte, index) => byte ^ (mask[index & 3] ?? 0)));
  return Buffer.concat([Buffer.from([(isLast ? 0x80 : 0) | opcode]), length, mask, masked]);
}

test("messages are reassembled regardless of how bytes and frames are split", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 50 }),
      fc.boolean(),
      (payloads, size, isSplit) => {
        const bytes = Buffer.concat(
          payloads.flatMap((payload) => {
            const half = payload.length >> 1;
            return isSplit
              ? [
                  frame(2, Buffer.from(payload.subarray(0, half)), false),
                  frame(9, Buffer.from("p")),
                  frame(0, Buffer.from(payload.subarray(half))),
                ]
              : [frame(2, Buffer.from(payload))];
          }),
        );
        const reader = new FrameReader();
        const messages: Buffer[] = [];
        for (let at = 0; at < bytes.length; at += size) {
          for (const result of reader.push(bytes.subarray(at, at + size))) {
            if (typeof result === "string") throw new Error(result);
            if (result.opcode === 2) messages.push(result.payload);
          }
        }
        expect(messages).toEqual(payloads.map((payload) => Buffer.from(payload)));
      },
    ),
  );
});

test.each([
  ["without a mask", Buffer.from([0x82, 1, 65]), "broken"],
  ["with an extension bit", Buffer.from([0xc2, 0x81, 0, 0, 0, 0, 65]), "broken"],
  ["that continues no message", frame(0, Buffer.from("x")), "broken"],
  ["that fragments a ping", frame(9, Buffer.from("x"), false), "broken"],
  ["beyond the maximum message size", Buffer.from([0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]), "too-long"],
])("rejects a frame %s", (_, bytes, expected) => {
  expect([...new FrameReader().push(bytes)]).toEqual([expected]);
});
