import type { DeepReadonly } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import type { Task } from "../api/task.ts";
import type { DispatchMessage } from "../protocol/messages.ts";
import { taskOf } from "../testing/objects.ts";
import { Dispatcher, resendAfterMs } from "./dispatcher.ts";

function setUp() {
  const clock = createVirtualClock();
  const sent: string[] = [];
  const state: { task: DeepReadonly<Task> | undefined; isOnline: boolean } = { task: undefined, isOnline: true };
  const messages: DispatchMessage[] = [];
  const dispatcher = new Dispatcher({
    clock,
    taskOf: () => state.task,
    isOnline: () => state.isOnline,
    send: (robot, message) => {
      sent.push(`${robot} ${message.action} ${message.task.status?.attempt}`);
      messages.push(message);
    },
  });
  const observe = (task: DeepReadonly<Task>): void => {
    state.task = task;
    dispatcher.taskChanged(task);
  };
  return { clock, sent, messages, state, dispatcher, observe };
}
const bound = (status: Task["status"], deleting = false) => taskOf(status, { bound: true, deleting });

describe("Dispatcher", () => {
  it("sends each attempt once while its state is dispatching (B2)", () => {
    const { sent, observe } = setUp();
    observe(taskOf({ state: "pending" }));
    observe(bound({ state: "dispatching", attempt: 1 }));
    observe(bound({ state: "dispatching", attempt: 1, message: "changed" }));
    observe(bound({ state: "running", attempt: 1 }));
    observe(bound({ state: "dispatching", attempt: 2 }));
    expect(sent).toEqual(["robot-001 create 1", "robot-001 create 2"]);
  });

  it("resends unanswered dispatches while the robot is online (B6, B8, F9)", async () => {
    const { clock, sent, state, observe } = setUp();
    observe(bound({ state: "dispatching", attempt: 1 }));
    await clock.advance(resendAfterMs * 2);
    expect(sent).toHaveLength(3);
    state.isOnline = false;
    await clock.advance(resendAfterMs * 10);
    expect(sent).toHaveLength(3);
    expect(clock.pendingTimers).toBe(0);
  });

  it("resends when the robot or the broker reconnects (B6)", () => {
    const { sent, observe, dispatcher } = setUp();
    observe(bound({ state: "dispatching", attempt: 1 }));
    dispatcher.resend("robot-002");
    expect(sent).toHaveLength(1);
    dispatcher.resend("robot-001");
    dispatcher.resendAll();
    expect(sent).toHaveLength(3);
  });

  it("has the robot of a displaced attempt stop it, alongside the dispatch of the current one", async () => {
    const { clock, sent, observe } = setUp();
    const displaced = { robot: "robot-002", attempt: 1 };
    observe(bound({ state: "dispatching", attempt: 2, displaced }));
    expect(sent).toEqual(["robot-001 create 2"]);
    observe(bound({ state: "running", attempt: 2, displaced: { ...displaced, stop: true } }));
    await clock.advance(resendAfterMs);
    expect(sent.slice(1)).toEqual(["robot-002 delete 1", "robot-002 delete 1"]);
    observe(bound({ state: "running", attempt: 2, displaced: { ...displaced, stop: true }, removedAttempt: 1 }));
    await clock.advance(resendAfterMs * 5);
    expect(sent).toHaveLength(3);
    expect(clock.pendingTimers).toBe(0);
  });

  it("sends a deletion until the robot has removed the task (B7)", async () => {
    const { clock, sent, observe } = setUp();
    observe(bound({ state: "running", attempt: 1 }, true));
    await clock.advance(resendAfterMs);
    const conditions = [{ type: "Released", status: "True", lastTransitionTime: "", reason: "x", message: "" }] as const;
    observe(bound({ state: "running", attempt: 1, conditions: [...conditions] }, true));
    await clock.advance(resendAfterMs * 5);
    expect(sent).toEqual(["robot-001 delete 1", "robot-001 delete 1"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("sends the whole Task without managedFields", () => {
    const { messages, observe } = setUp();
    const task = bound({ state: "dispatching", attempt: 1 });
    observe({ ...task, metadata: { ...task.metadata, managedFields: [{ manager: "x" }] } });
    expect(messages[0]?.task).toEqual(task);
  });

  it("keeps no timer for a deleted Task", () => {
    const { clock, observe, dispatcher } = setUp();
    observe(bound({ state: "dispatching", attempt: 1 }));
    dispatcher.taskDeleted(bound(undefined).metadata.uid ?? "");
    expect(clock.pendingTimers).toBe(0);
  });
});
