import { expect, test } from "vitest";
import { parseRecord, serialiseRecord } from "./program-record.ts";

test("a record is read as it was written, and anything else is none", () => {
  const record = { kind: "running", identity: { shimPid: 1 }, startedAt: 5, stop: { reason: "Timeout", graceMs: 3 } } as const;
  expect(parseRecord(serialiseRecord(record))).toEqual(record);
  for (const text of ["", "{", "null", "[]", '{"kind":"running"}', '{"kind":"exited","exited":{}}'])
    expect(parseRecord(text)).toBeUndefined();
});
