import { expect, it } from "vitest";
import { amountOf, roleOf } from "./assignment-record.ts";

it("counts the data of a former primary less than any other until it has streamed from its successor", () => {
  const record = { role: "replica", primaryHost: "127.0.0.2", epoch: 2 } as const;
  expect(amountOf(900, { ...record, isPending: true })).toBe(1);
  expect(amountOf(0, { ...record, isPending: true })).toBe(0);
  expect(amountOf(900, { ...record, isPending: false })).toBe(900);
  expect(amountOf(900, undefined)).toBe(900);
});

it("reports a primary that does not act as one as recovering", () => {
  const record = { role: "primary", primaryHost: "127.0.0.1", epoch: 2 } as const;
  expect(roleOf(record, { hasData: true, isPrimary: true })).toBe("primary");
  expect(roleOf(record, { hasData: true, isPrimary: false })).toBe("recovering");
  expect(roleOf({ ...record, role: "replica" }, { hasData: true, isPrimary: true })).toBe("replica");
  expect(roleOf(undefined, { hasData: true, isPrimary: true })).toBe("recovering");
  expect(roleOf(undefined, { hasData: false, isPrimary: false })).toBe("unassigned");
});
