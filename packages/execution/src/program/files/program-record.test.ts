import { expect, test } from "vitest";
import { parseRecord, serialiseRecord } from "./program-record.ts";

test("reads back what it wrote and rejects anything else", () => {
  const record = { kind: "running", identity: { shimPid: 1 }, startedAt: 5, stop: { reason: "Timeout", graceMs: 3 } } as const;
  const changed = { ...record, limits: { cpuMillis: 250, memoryBytes: 1 << 20 } };
  for (const written of [record, changed]) expect(parseRecord(serialiseRecord(written))).toEqual(written);
  for (const text of ["", "{", "null", "[]", '{"kind":"running"}', '{"kind":"exited","exited":{}}'])
    expect(parseRecord(text)).toBeUndefined();
});
