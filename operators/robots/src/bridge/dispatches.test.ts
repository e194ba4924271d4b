import type { DeepReadonly } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import type { Task } from "../api/task.ts";
import type { DispatchMessage } from "../protocol/messages.ts";
import { taskOf } from "../testing/objects.ts";
import { answerWithinMs, createDispatches } from "./dispatches.ts";

function setUp() {
  const clock = createVirtualClock();
  const sent: string[] = [];
  const state: { task: DeepReadonly<Task> | undefined; isOnline: boolean } = { task: undefined, isOnline: true };
  const messages: DispatchMessage[] = [];
  const dispatches = createDispatches({
    clock,
    taskOf: () => state.task,
    isOnline: () => state.isOnline,
    send: (robot, message) => {
      sent.push(`${robot} ${message.action} ${message.task.status?.attempt}`);
      messages.push(message);
    },
  });
  const see = (task: DeepReadonly<Task>): void => {
    state.task = task;
    dispatches.changed(task);
  };
  return { clock, sent, messages, state, dispatches, see };
}
const bound = (status: Task["status"], deleting = false) => taskOf(status, { bound: true, deleting });

describe("createDispatches", () => {
  it("sends only while the state is dispatching, once an attempt (B2)", () => {
    const { sent, see } = setUp();
    see(taskOf({ state: "pending" }));
    see(bound({ state: "dispatching", attempt: 1 }));
    see(bound({ state: "dispatching", attempt: 1, message: "changed" }));
    see(bound({ state: "running", attempt: 1 }));
    see(bound({ state: "dispatching", attempt: 2 }));
    expect(sent).toEqual(["robot-001 create 1", "robot-001 create 2"]);
  });

  it("sends again what is not answered, while the robot is online (B6, B8, F9)", async () => {
    const { clock, sent, state, see } = setUp();
    see(bound({ state: "dispatching", attempt: 1 }));
    await clock.advance(answerWithinMs * 2);
    expect(sent).toHaveLength(3);
    state.isOnline = false;
    await clock.advance(answerWithinMs * 10);
    expect(sent).toHaveLength(3);
    expect(clock.pendingTimers).toBe(0);
  });

  it("sends again when the robot or the broker comes back (B6)", () => {
    const { sent, see, dispatches } = setUp();
    see(bound({ state: "dispatching", attempt: 1 }));
    dispatches.repeat("robot-002");
    expect(sent).toHaveLength(1);
    dispatches.repeat("robot-001");
    dispatches.repeatAll();
    expect(sent).toHaveLength(3);
  });

  it("tells the robot of a deletion until nothing is left there (B7)", async () => {
    const { clock, sent, see } = setUp();
    see(bound({ state: "running", attempt: 1 }, true));
    await clock.advance(answerWithinMs);
    const conditions = [{ type: "Released", status: "True", lastTransitionTime: "", reason: "x", message: "" }] as const;
    see(bound({ state: "running", attempt: 1, conditions: [...conditions] }, true));
    await clock.advance(answerWithinMs * 5);
    expect(sent).toEqual(["robot-001 delete 1", "robot-001 delete 1"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("sends the whole Task, but not who wrote which field", () => {
    const { messages, see } = setUp();
    const task = bound({ state: "dispatching", attempt: 1 });
    see({ ...task, metadata: { ...task.metadata, managedFields: [{ manager: "x" }] } });
    expect(messages[0]?.task).toEqual(task);
  });

  it("holds no timer for a Task that is gone", () => {
    const { clock, see, dispatches } = setUp();
    see(bound({ state: "dispatching", attempt: 1 }));
    dispatches.removed(bound(undefined).metadata.uid ?? "");
    expect(clock.pendingTimers).toBe(0);
  });
});
