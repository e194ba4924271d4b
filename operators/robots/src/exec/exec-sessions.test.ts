import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import { execPingMs, type ExecMessage, execWindowBytes, maxExecDataBytes } from "../protocol/exec-messages.ts";
import { type ExecHandle, type ExecListener, ExecSessions } from "./exec-sessions.ts";

const start = { kind: "start", taskUid: "uid", attempt: 1, command: ["sh"], timeoutMs: 60_000 } as const;

function setUp() {
  const clock = createVirtualClock();
  const sent: { readonly robotId: string; readonly message: ExecMessage }[] = [];
  const sessions = new ExecSessions({
    clock,
    send: (robotId, topic, message) => {
      expect(topic).toBe(`k8s4r/robots/${robotId}/exec`);
      sent.push({ robotId, message: message as ExecMessage });
    },
  });
  const output: string[] = [];
  const ends: unknown[] = [];
  const listener: ExecListener = {
    onOutput: ({ data }) => Promise.resolve(void output.push(data.toString())),
    onEnd: (end) => void ends.push(end),
  };
  const open = (robotId = "robot-001"): { handle: ExecHandle | undefined; id: string } => {
    const handle = sessions.open(robotId, start, listener);
    return { handle, id: sent.at(-1)?.message.id ?? "" };
  };
  return { clock, sent, sessions, output, ends, open };
}

const data = Buffer.from("out").toString("base64");

it("ignores the reports of other robots and repeated ones", async () => {
  const { sessions, open, output, ends } = setUp();
  const { id } = open();
  sessions.receive("robot-002", { id, seq: 0, kind: "exited", exitCode: 0 });
  const report = { id, seq: 0, kind: "output", stream: "stdout", data } as const;
  for (let times = 0; times < 2; times++) sessions.receive("robot-001", report);
  await Promise.resolve();
  sessions.receive("robot-001", { id, seq: 1, kind: "exited", exitCode: 4 });
  await expect.poll(() => ends).toEqual([{ exitCode: 4 }]);
  expect(output).toEqual(["out"]);
});

it("ends a command whose output was lost, including on the robot", () => {
  const { sessions, open, ends, sent } = setUp();
  const { id } = open();
  sessions.receive("robot-001", { id, seq: 1, kind: "output", stream: "stdout", data });
  expect(ends).toEqual([{ problem: "a message from the robot was lost", isInterrupted: true }]);
  expect(sent.at(-1)?.message).toMatchObject({ id, kind: "close" });
});

it("ends the commands on a robot that is lost, and no others", () => {
  const { sessions, open, ends } = setUp();
  open("robot-001");
  const { handle } = open("robot-002");
  sessions.robotLost("robot-001");
  expect(ends).toEqual([{ problem: "robot robot-001 is no longer connected", isInterrupted: true }]);
  handle?.close();
  expect(ends).toHaveLength(2);
});

it("shows the robot that the caller is there until the command ends", async () => {
  const { clock, sent, open } = setUp();
  const { handle } = open();
  await clock.advance(2 * execPingMs);
  expect(sent.map(({ message }) => message.kind)).toEqual(["start", "ping", "ping"]);
  handle?.close();
  await clock.advance(10 * execPingMs);
  expect(sent.map(({ message }) => message.kind)).toEqual(["start", "ping", "ping", "close"]);
  expect(sent.map(({ message }) => message.seq)).toEqual([0, 1, 2, 3]);
});

it("ends a command that its robot does not end in time", async () => {
  const { clock, ends, open } = setUp();
  open();
  await clock.advance(start.timeoutMs + execPingMs);
  expect(ends).toEqual([{ problem: "the command exceeded its time limit of 60 s" }]);
});

it("limits the number of commands, and ends all when it stops", () => {
  const { sessions, ends, open } = setUp();
  for (let count = 0; count < 64; count++) expect(open().handle).toBeDefined();
  expect(open().handle).toBeUndefined();
  sessions.stop();
  expect(ends).toHaveLength(64);
});

describe("a caller that does not read", () => {
  const flood = (bytes: number, count: number) => {
    const { sessions, sent, ends } = setUp();
    const parts: number[] = [];
    let wake: () => void = () => {};
    const onOutput = ({ data: part }: { readonly data: Buffer }) => {
      parts.push(part.length);
      return new Promise<void>((resolve) => (wake = resolve));
    };
    sessions.open("robot-001", start, { onOutput, onEnd: (end) => void ends.push(end) });
    const id = sent[0]?.message.id ?? "";
    const part = Buffer.alloc(bytes).toString("base64");
    const send = (seq: number) =>
      sessions.receive("robot-001", { id, seq, kind: "output", stream: seq % 2 === 0 ? "stdout" : "stderr", data: part });
    for (let seq = 0; seq < count; seq++) send(seq);
    return { ends, sent, parts, send, wake: () => wake() };
  };

  it("ends a command whose robot sends more than was credited", async () => {
    const count = execWindowBytes / maxExecDataBytes;
    const { ends, sent, send, wake, parts } = flood(maxExecDataBytes, count);
    expect(ends).toEqual([]);
    wake();
    // Processed and credited, so the robot may send as much again, and no more.
    await expect.poll(() => sent.at(-1)?.message).toMatchObject({ kind: "credit", bytes: maxExecDataBytes });
    send(count);
    expect(ends).toEqual([]);
    send(count + 1);
    expect(ends).toEqual([{ problem: "the robot sent more than 262144 bytes of output that were not credited" }]);
    expect(sent.at(-1)?.message.kind).toBe("close");
    wake();
    await Promise.resolve();
    expect(parts).toHaveLength(2);
  });

  it("gets many small messages as few large ones", async () => {
    const { ends, parts, wake } = flood(1, 5000);
    wake();
    await expect.poll(() => parts).toHaveLength(2);
    wake();
    await expect.poll(() => parts).toHaveLength(3);
    expect(parts).toEqual([1, 2500, 2499]);
    expect(ends).toEqual([]);
  });
});
