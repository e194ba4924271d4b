import { expect, it } from "vitest";
import { pinnedAnnotation } from "../../api/names.ts";
import { t0, taskOf } from "../../testing/objects.ts";
import { isPinned } from "../moves/move-decision.ts";
import { dispatchedStatus } from "./task-status.ts";

const attempt = { robot: "robot-001", attempt: 1, isRestart: false };

it("keeps the pin of a task whose binding was stored before a crash", () => {
  const task = taskOf(undefined, { bound: true });
  const bound = { ...task, metadata: { ...task.metadata, annotations: { [pinnedAnnotation]: "true" } } };
  for (const [each, expected] of [
    [bound, true],
    [task, false],
  ] as const) {
    expect(isPinned({ ...each, status: dispatchedStatus(each, { ...attempt, isLeased: false }, t0) })).toBe(expected);
  }
});
