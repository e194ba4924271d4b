import { silentLogger } from "@keelson/controller";
import type { Program, ProgramState } from "@keelson/execution";
import { expect, it } from "vitest";
import type { SignalAnswer, SignalMessage } from "../../protocol/messages.ts";
import type { HeldTask } from "../held-task.ts";
import { TaskSignaller } from "./task-signaller.ts";

const taskUid = "00000000-0000-4000-8000-000000000001";
const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const message = (change: Partial<SignalMessage> = {}): SignalMessage => ({
  ...{ id: idOf(1), taskUid, attempt: 2, signal: "SIGHUP", issuedAt: 2000 },
  ...change,
});

/** An agent with one running program, which learned the server's time at `since`. */
function agentWith(options: { readonly since?: number | undefined; readonly task?: Partial<HeldTask> } = {}) {
  const { since } = "since" in options ? options : { since: 1000 };
  const signals: string[] = [];
  const answers: SignalAnswer[] = [];
  const task = { uid: taskUid, attempt: 2, phase: "running", seq: 1, isAcknowledged: true, ticks: 0, changedAt: 0 } as const;
  const state: ProgramState = { kind: "running", pid: 7, startedAt: 0 };
  const program: Pick<Program, "state" | "signal"> = { state, signal: (signal) => void signals.push(signal) };
  const signaller = new TaskSignaller({
    driver: { get: (id) => (id === `${taskUid}-1` || id === `${taskUid}-2` ? (program as Program) : undefined) },
    taskOf: (uid) => (uid === taskUid ? { ...task, ...options.task } : undefined),
    since: () => since,
    publish: (answer) => void answers.push(answer),
    log: silentLogger,
  });
  return { signaller, signals, answers };
}

it("delivers a signal once and answers every message", () => {
  const { signaller, signals, answers } = agentWith();
  for (let times = 0; times < 3; times++) signaller.deliver(message());
  expect(signals).toEqual(["SIGHUP"]);
  expect(answers).toEqual(Array.from({ length: 3 }, () => ({ id: idOf(1), isDelivered: true, message: "" })));
});

it("signals a program that an earlier attempt started", () => {
  const { signaller, signals } = agentWith({ task: { programAttempt: 1 } });
  signaller.deliver(message());
  expect(signals).toEqual(["SIGHUP"]);
});

it.each([
  ["was sent before the agent started", {}, { issuedAt: 999 }, /the last one may have received it/],
  ["is for another attempt", {}, { attempt: 1 }, /does not have this attempt/],
  ["is for another task", {}, { taskUid: idOf(9) }, /does not have this attempt/],
  ["is for a program that has ended", { task: { phase: "ended" as const } }, {}, /is not running/],
  ["does not exist", {}, { signal: "SIGNOPE" }, /"SIGNOPE" is not a signal/],
  ["names a property of every object", {}, { signal: "constructor" }, /is not a signal/],
  ["cannot be checked because the robot has no key", { since: undefined }, {}, /has no key/],
])("rejects a signal that %s", (_, options, change, reason) => {
  const { signaller, signals, answers } = agentWith(options);
  signaller.deliver(message(change));
  expect(signals).toEqual([]);
  expect(answers).toMatchObject([{ isDelivered: false, message: expect.stringMatching(reason) }]);
});

it("does not deliver a replayed signal whose answer it has forgotten", () => {
  const { signaller, signals, answers } = agentWith();
  for (let n = 0; n <= 1024; n++) signaller.deliver(message({ id: idOf(n), issuedAt: 2000 + n }));
  expect(signals).toHaveLength(1025);
  signaller.deliver(message({ id: idOf(0), issuedAt: 2000 }));
  expect(signals).toHaveLength(1025);
  expect(answers.at(-1)).toMatchObject({ isDelivered: false });
});
