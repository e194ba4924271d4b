import { expect, test } from "vitest";
import { recoveredTask } from "./recovered-task.ts";

const program = (metadata: Readonly<Record<string, string>>) => ({ spec: { id: "a", command: ["run"] as const, metadata } });

test("a task without a record keeps the attempt and the run of its program, and reports from a high number on", () => {
  expect(recoveredTask("a", program({ attempt: "3", run: "2" }), 5)).toMatchObject({
    ...{ attempt: 3, programAttempt: 3, run: 2, phase: "accepted", seq: 1000 },
  });
  expect(recoveredTask("a", program({ attempt: "3" }), 5)).not.toHaveProperty("lease");
});

test("a task without a record needs a lease if its program was started with one", () => {
  const lease = { durationMs: 60_000, graceMs: 5_000 };
  expect(recoveredTask("a", program({ attempt: "1", lease: JSON.stringify(lease) }), 5).lease).toEqual(lease);
  expect(recoveredTask("a", program({ attempt: "1", lease: "{" }), 5).lease).toEqual({ durationMs: 0, graceMs: 0 });
});
