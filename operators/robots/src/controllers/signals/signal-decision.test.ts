import { expect, it } from "vitest";
import type { TaskSignal } from "../../api/task-signal.ts";
import { signalsFeature } from "../../protocol/messages.ts";
import { after, robotOf, t0, taskOf } from "../../testing/objects.ts";
import {
  confirmationTimeoutMs,
  decideSignal,
  maxSignalAgeMs,
  signalRetentionMs,
  type SignalStatus,
} from "./signal-decision.ts";

const signalOf = (status?: SignalStatus): TaskSignal => ({
  apiVersion: "robot.k8s4r.io/v1alpha1",
  kind: "TaskSignal",
  metadata: { name: "hup", namespace: "default", uid: "signal-1", creationTimestamp: after(0) },
  spec: { task: "hello-workers-run-0", signal: "SIGHUP" },
  ...(status === undefined ? {} : { status }),
});

const identity = { keySha256: "a".repeat(64), publicKey: "", certificate: "", expires: after(1e9) };
const online = {
  phase: "Online" as const,
  identity,
  agentFeatures: [signalsFeature],
  conditions: [{ type: "Approved", status: "True" as const, reason: "Joined", message: "", lastTransitionTime: after(0) }],
};
const robot = robotOf("robot-001", { status: online });
const task = taskOf({ state: "running", attempt: 3 }, { bound: true });
const decide = (change: Partial<Parameters<typeof decideSignal>[0]> = {}) =>
  decideSignal({ signal: signalOf(), task, robot, now: t0, ...change });

it("records the robot and the attempt before a signal is sent", () => {
  const status = { phase: "Sent", robot: "robot-001", taskUid: task.metadata.uid, attempt: 3, sentAt: after(0) };
  expect(decide()).toEqual({ kind: "write", status });
});

it.each([
  ["TaskNotFound", { task: undefined }, /task hello-workers-run-0 not found/],
  ["TaskNotRunning", { task: taskOf({ state: "completed" }, { bound: true }) }, /is completed; only a running task/],
  ["TaskNotRunning", { task: taskOf({ state: "running" }, { bound: true, deleting: true }) }, /is being deleted/],
  ["RobotNotOnline", { robot: undefined }, /robot robot-001 is not online/],
  ["RobotNotOnline", { robot: robotOf("robot-001", { status: { ...online, phase: "Offline" } }) }, /is not online/],
  [
    "RobotHasNoKey",
    { robot: robotOf("robot-001", { status: { phase: "Online", conditions: online.conditions } }) },
    /join it with a one-time token \(keelson robots token create --robot robot-001\)/,
  ],
  ["AgentTooOld", { robot: robotOf("robot-001", { status: { ...online, agentFeatures: ["leases"] } }) }, /does not support/],
  ["Expired", { now: t0 + maxSignalAgeMs + 1 }, /did not run for 5 minutes/],
] as const)("fails with %s", (reason, change, message) => {
  const decision = decide(change);
  expect(decision).toMatchObject({
    kind: "write",
    status: { phase: "Failed", reason, message: expect.stringMatching(message) },
  });
});

it("waits for the confirmation, then fails without sending again", () => {
  const sent: SignalStatus = { phase: "Sent", robot: "robot-001", taskUid: "uid", attempt: 3, sentAt: after(0) };
  const signal = signalOf(sent);
  // The task has another attempt by now: the signal is not for it.
  const moved = taskOf({ state: "running", attempt: 4 }, { bound: true });
  expect(decide({ signal, task: moved, now: t0 + 1 })).toEqual({ kind: "wait", requeueAfterMs: confirmationTimeoutMs - 1 });
  const failed = { phase: "Failed", reason: "NotConfirmed", attempt: 3, message: expect.stringContaining("may have been") };
  expect(decide({ signal, now: t0 + confirmationTimeoutMs })).toMatchObject({ kind: "write", status: failed });
});

it.each(["Delivered", "Failed"] as const)("deletes a signal some time after it was %s", (phase) => {
  const signal = signalOf({ phase, finishedAt: after(0) });
  expect(decide({ signal, now: t0 + 1 })).toEqual({ kind: "wait", requeueAfterMs: signalRetentionMs - 1 });
  expect(decide({ signal, now: t0 + signalRetentionMs })).toEqual({ kind: "delete" });
});
