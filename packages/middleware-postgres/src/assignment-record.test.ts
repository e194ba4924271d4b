import { expect, it } from "vitest";
import { amountOf } from "./assignment-record.ts";

it("counts the data of a former primary less than any other until it has streamed from its successor", () => {
  const record = { role: "replica", primaryHost: "127.0.0.2", epoch: 2 } as const;
  expect(amountOf(900, { ...record, isPending: true })).toBe(1);
  expect(amountOf(0, { ...record, isPending: true })).toBe(0);
  expect(amountOf(900, { ...record, isPending: false })).toBe(900);
  expect(amountOf(900, undefined)).toBe(900);
});
