import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import { RegistrationLimits } from "./robot-limits.ts";
import { TaskDeletions } from "./task-deletions.ts";

const tasksOf = (count: number, prefix = "t") =>
  Array.from({ length: count }, (_, index) => ({ taskUid: `${prefix}-${index}`, attempt: 1 }));

function setUp() {
  const clock = createVirtualClock();
  const limits = new RegistrationLimits(clock);
  const sent: string[] = [];
  const wanted = new Set<string>();
  const deletions = new TaskDeletions({
    clock,
    tasksOf: () => [],
    isUnwanted: (_, { taskUid }) => !wanted.has(taskUid),
    mayDelete: (robot) => limits.mayDelete(robot),
    send: (robot, { taskUid }) => sent.push(`${robot}/${taskUid}`),
  });
  return { clock, sent, wanted, deletions };
}

describe("TaskDeletions", () => {
  it("sends every deletion, those beyond the limit at its rate", async () => {
    const { clock, sent, deletions } = setUp();
    deletions.registered("r", tasksOf(1_100));
    expect(sent).toHaveLength(1_024);
    await clock.advance(1_000);
    expect(sent).toHaveLength(1_034);
    await clock.advance(10_000);
    expect(new Set(sent).size).toBe(1_100);
    expect([sent.length, clock.pendingTimers]).toEqual([1_100, 0]);
  });

  it("keeps only the latest registration of a robot, and one timer for all", async () => {
    const { clock, sent, deletions } = setUp();
    for (let n = 0; n < 5; n++) deletions.registered("r", tasksOf(2_000));
    deletions.registered("r", tasksOf(5, "late"));
    deletions.registered("s", tasksOf(1_030));
    expect([sent.length, clock.pendingTimers]).toEqual([2_048, 1]);
    await clock.advance(10_000);
    expect(sent.filter((each) => each.startsWith("r/late"))).toHaveLength(5);
    expect(sent).toHaveLength(1_024 + 5 + 1_030);
  });

  it("does not delete a task that the robot may have by then", async () => {
    const { clock, sent, wanted, deletions } = setUp();
    deletions.registered("r", tasksOf(1_026));
    wanted.add("t-1024");
    await clock.advance(5_000);
    expect(sent).not.toContain("r/t-1024");
    expect(sent).toContain("r/t-1025");
  });

  it("forgets a robot that was deleted, and sends nothing after it was stopped", async () => {
    const { clock, sent, deletions } = setUp();
    deletions.registered("r", tasksOf(1_100));
    deletions.robotDeleted("r");
    deletions.registered("s", tasksOf(1_100));
    deletions.stop();
    deletions.registered("s", tasksOf(2_000));
    await clock.advance(60_000);
    expect([sent.length, clock.pendingTimers]).toEqual([2_048, 0]);
  });
});
