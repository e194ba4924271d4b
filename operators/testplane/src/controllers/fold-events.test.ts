import { describe, expect, it } from "vitest";
import { foldEvents } from "./fold-events.ts";
import type { EventDraft } from "./test-status.ts";

const normal = (reason: string, note: string): EventDraft => ({ type: "Normal", reason, note });
const fold = (...drafts: readonly EventDraft[]) => foldEvents(drafts).map(({ reason, note }) => `${reason}: ${note}`);

describe("the events of one write", () => {
  it("name the step that starts in the event before it", () => {
    expect(fold(normal("IntegrationTestStarted", "2 steps, Sequential"), normal("StepStarted", "round 1: create"))).toEqual([
      "IntegrationTestStarted: 2 steps, Sequential; started create",
    ]);
    expect(fold(normal("StepSucceeded", "create"), normal("StepStarted", "round 1: wait"))).toEqual([
      "StepSucceeded: create; started wait",
    ]);
  });

  it("name the last step in the event of the test's success", () => {
    expect(fold(normal("StepSucceeded", "wait"), normal("IntegrationTestSucceeded", "all steps succeeded"))).toEqual([
      "IntegrationTestSucceeded: wait; all steps succeeded",
    ]);
  });

  it("keep failures and what follows them apart", () => {
    const failure: EventDraft = { type: "Warning", reason: "StepFailed", note: "wait: Timeout" };
    expect(fold(failure, normal("StepStarted", "round 1: dump"))).toHaveLength(2);
    expect(fold(normal("StepSucceeded", "create"), failure)).toHaveLength(2);
    expect(fold(normal("StepSucceeded", "create"), { ...failure, reason: "IntegrationTestFailed" })).toHaveLength(2);
  });

  it("have notes of bounded length", () => {
    const starts = Array.from({ length: 100 }, (_, index) => normal("StepStarted", `round 1: step-${index}`));
    const folded = foldEvents(starts);
    expect(folded.length).toBeLessThan(10);
    expect(Math.max(...folded.map(({ note }) => note.length))).toBeLessThanOrEqual(512);
    expect(
      folded
        .map(({ note }) => note)
        .join()
        .match(/step-\d+/g),
    ).toHaveLength(100);
  });
});
