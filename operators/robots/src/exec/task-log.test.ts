import { setImmediate } from "node:timers/promises";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { LogPosition } from "@keelson/execution";
import { beforeEach, expect, it } from "vitest";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import { logsFeature, type LogRequest } from "../protocol/log-messages.ts";
import { after, robotOf, taskOf } from "../testing/objects.ts";
import type { ExecListener } from "./exec-sessions.ts";
import { sendTaskLog } from "./task-log.ts";

const identity = { keySha256: "a".repeat(64), publicKey: "", certificate: "", expires: after(1e9) };
const online = robotOf("robot-001", { status: { phase: "Online", identity, agentFeatures: [logsFeature] } });
const offline = robotOf("robot-001", { status: { phase: "Offline", identity, agentFeatures: [logsFeature] } });
const position: LogPosition = { after: 0, offset: 4, last: "b25lCg==" };

let task: DeepReadonly<Task> | undefined;
let robot: DeepReadonly<Robot>;
let notices: string[];
let listeners: Set<() => void>;
let opened: { readonly start: Readonly<Record<string, unknown>>; readonly listener: ExecListener; isClosed: boolean }[];
let gone: AbortController;

beforeEach(() => {
  task = taskOf({ state: "running", attempt: 1, logsStdout: "a\nb\nc\n" }, { bound: true });
  robot = online;
  notices = [];
  listeners = new Set();
  opened = [];
  gone = new AbortController();
});

function send(request: Partial<LogRequest> = {}): ReturnType<typeof sendTaskLog> {
  return sendTaskLog({
    task: "main",
    request: { isFollowing: true, streams: ["stdout", "stderr"], ...request },
    reader: {
      signal: gone.signal,
      output: async (stream, data) => void notices.push(`${stream}: ${data.toString()}`),
      notice: (message) => void notices.push(message),
    },
    sessions: {
      open(_robot, start, listener) {
        const session = { start, listener, isClosed: false };
        opened.push(session);
        const close = (): void => {
          session.isClosed = true;
          listener.onEnd({ problem: "the caller disconnected" });
        };
        return { write: () => Promise.resolve(), endInput() {}, resize() {}, close };
      },
    },
    taskNamed: () => task,
    robotNamed: () => robot,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
}

async function robotIs(now: DeepReadonly<Robot>): Promise<void> {
  robot = now;
  for (const listener of listeners) listener();
  await setImmediate();
}

it("continues where the output ended when the robot returns", async () => {
  const sent = send();
  await opened[0]?.listener.onOutput({ stream: "stdout", data: Buffer.from("one\n"), position });
  robot = offline;
  opened[0]?.listener.onEnd({ problem: "robot robot-001 is no longer connected", isInterrupted: true });
  await setImmediate();
  expect(opened).toHaveLength(1);
  await robotIs(online);
  expect(opened[1]?.start).toMatchObject({ kind: "logs", attempt: 1, from: { stdout: position } });
  opened[1]?.listener.onEnd({ exitCode: 0 });
  expect(await sent).toEqual({ exitCode: 0 });
  expect(notices).toEqual(["stdout: one\n", "robot robot-001 is no longer connected", "continuing with the output"]);
  expect(listeners.size).toBe(0);
});

it("begins anew with another attempt", async () => {
  const sent = send();
  await opened[0]?.listener.onOutput({ stream: "stdout", data: Buffer.from("one\n"), position });
  task = taskOf({ state: "running", attempt: 2 }, { bound: true });
  opened[0]?.listener.onEnd({ problem: "lost", isInterrupted: true });
  await setImmediate();
  expect(opened[1]?.start).toMatchObject({ attempt: 2, from: {} });
  opened[1]?.listener.onEnd({ problem: "the robot's agent is stopping" });
  expect(await sent).toEqual({ problem: "the robot's agent is stopping" });
});

it("waits for a robot that is not online, until the reader disconnected", async () => {
  robot = offline;
  const sent = send();
  await robotIs(offline);
  expect(notices).toEqual(["robot robot-001 is not online; waiting for the robot"]);
  gone.abort();
  expect(await sent).toEqual({ problem: "the reader disconnected" });
  expect([opened, listeners.size]).toEqual([[], 0]);
});

it("ends the output on the robot when the reader disconnected", async () => {
  const sent = send();
  gone.abort();
  expect(await sent).toEqual({ problem: "the caller disconnected" });
  expect(opened[0]?.isClosed).toBe(true);
});

it("sends what an absent robot has reported to a reader that does not follow", async () => {
  robot = offline;
  expect(await send({ isFollowing: false, tailLines: 2 })).toEqual({ exitCode: 0 });
  expect(notices).toEqual([
    "robot robot-001 is not online; this is the end of the output that it has reported",
    "stdout: b\nc\n",
  ]);
});

it.each([
  ["a task that does not exist", undefined, "task main not found in this namespace"],
  [
    "the task has not started",
    taskOf({ state: "pending", message: "no robot fits" }),
    "task main is pending and has no output yet: no robot fits",
  ],
])("says that %s", async (_, missing, problem) => {
  task = missing;
  expect(await send()).toEqual({ problem });
});
