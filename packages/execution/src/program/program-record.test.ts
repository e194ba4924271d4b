import { expect, test } from "vitest";
import { parseRecord, serialiseRecord } from "./program-record.ts";

test("reads back what it wrote and rejects anything else", () => {
  const record = { kind: "running", identity: { shimPid: 1 }, startedAt: 5, stop: { reason: "Timeout", graceMs: 3 } } as const;
  expect(parseRecord(serialiseRecord(record))).toEqual(record);
  for (const text of ["", "{", "null", "[]", '{"kind":"running"}', '{"kind":"exited","exited":{}}'])
    expect(parseRecord(text)).toBeUndefined();
});
