import { expect, it } from "vitest";
import type { StatusMessage } from "../protocol/messages.ts";
import { eventOfReport } from "./report-event.ts";

const report = (state: StatusMessage["state"], event: string): StatusMessage => ({
  taskUid: "00000000-0000-4000-8000-000000000001",
  robotName: "robot-001",
  state,
  message: "what happened",
  event: event as StatusMessage["event"],
  updatedAt: "",
});

it.each([
  ["running", "Started", "Normal"],
  ["running", "Restarting", "Normal"],
  ["completed", "Completed", "Normal"],
  ["failed", "Failed", "Warning"],
  ["failed", "Timeout", "Warning"],
  ["failed", "StartFailed", "Warning"],
] as const)("%s with %s is an event of type %s", (state, event, type) => {
  expect(eventOfReport(report(state, event))).toEqual({ type, reason: event, note: "robot-001: what happened" });
});

it("a removal, and a reason that is not a name, have no event", () => {
  expect(eventOfReport(report("deleted", "Deleted"))).toBeUndefined();
  expect(eventOfReport(report("running", "not a name"))).toBeUndefined();
  expect(eventOfReport(report("running", ""))).toBeUndefined();
});
