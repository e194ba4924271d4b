import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeJournalRecord, encodeJournalRecord, type JournalRecord } from "./journal-record.ts";

const bytes = fc.uint8Array({ maxLength: 50 }).map((array) => Buffer.from(array));
const records: fc.Arbitrary<JournalRecord> = fc.record({
  base: fc.maxSafeNat(),
  batch: fc.record({
    objects: fc.array(fc.record({ key: fc.string({ unit: "grapheme" }), value: fc.option(bytes, { nil: undefined }) })),
    log: fc.array(fc.record({ revision: fc.maxSafeNat(), value: bytes })),
    position: fc.record({ revision: fc.maxSafeNat(), compacted: fc.maxSafeNat() }),
    dropAfter: fc.maxSafeNat(),
  }),
});

it("decodes an encoded record at any offset", () => {
  fc.assert(
    fc.property(records, bytes, (record, before) => {
      const encoded = encodeJournalRecord(record);
      const found = decodeJournalRecord(Buffer.concat([before, encoded, Buffer.alloc(9)]), before.length);
      expect(found).toEqual({ record, end: before.length + encoded.length });
    }),
  );
});

it("rejects a record that is cut off or has a changed byte", () => {
  fc.assert(
    fc.property(records, fc.nat(), fc.integer({ min: 1, max: 255 }), (record, index, change) => {
      const encoded = encodeJournalRecord(record);
      const at = index % encoded.length;
      expect(decodeJournalRecord(encoded.subarray(0, at), 0)).toBeUndefined();
      encoded[at] = (encoded[at] ?? 0) ^ change;
      expect(decodeJournalRecord(encoded, 0)).toBeUndefined();
    }),
  );
});
