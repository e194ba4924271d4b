import { setImmediate } from "node:timers/promises";
import { PassThrough } from "node:stream";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import type { ExecSession, Program } from "@keelson/execution";
import { expect, it } from "vitest";
import { type ExecMessage, type ExecReport, execSilenceMs, execWindowBytes } from "../../protocol/exec-messages.ts";
import { defaultRobotPolicy, type RobotPolicy } from "../policy/robot-policy.ts";
import { TaskExecs } from "./task-execs.ts";

const taskUid = "00000000-0000-4000-8000-000000000001";
const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const startOf = (n: number, change: object = {}): ExecMessage => ({
  ...{ id: idOf(n), seq: 0, kind: "start", issuedAt: 2000, taskUid, attempt: 2, command: ["sh"], timeoutMs: 60_000 },
  ...change,
});

/** A command that a test plays. */
function fakeSession() {
  let exit: (end: { readonly exitCode: number }) => void = () => {};
  const exited = new Promise<{ readonly exitCode: number }>((resolve) => (exit = resolve));
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const end = (exitCode: number): void => {
    for (const stream of [stdout, stderr]) stream.end();
    exit({ exitCode });
  };
  let isAlone = false;
  const session: ExecSession = {
    ...{ stdin, stdout, stderr, exited: () => exited },
    resize: () => Promise.resolve(),
    signal: () => Promise.resolve(),
    // A child that is not killed keeps the output open.
    kill: () => Promise.resolve(isAlone ? undefined : end(137)),
  };
  /** The command exits, but a child of it keeps its output open. */
  const exitAlone = (exitCode: number): void => {
    isAlone = true;
    exit({ exitCode });
  };
  return { session, stdin, stdout, end, exit: exitAlone };
}

function setUp({ since = 1000, policy = {} }: { readonly since?: number; readonly policy?: Partial<RobotPolicy> } = {}) {
  const clock = createVirtualClock();
  const reports: ExecReport[] = [];
  const sessions: ReturnType<typeof fakeSession>[] = [];
  const program: Pick<Program, "state" | "exec"> = {
    state: { kind: "running", pid: 7, startedAt: 0 },
    async exec() {
      const fake = fakeSession();
      sessions.push(fake);
      return fake.session;
    },
  };
  const task = { uid: taskUid, attempt: 2, phase: "running", seq: 1, isAcknowledged: true, ticks: 0, changedAt: 0 } as const;
  const execs = new TaskExecs({
    driver: { get: () => program as Program },
    policy: { robotId: "robot-001", ...defaultRobotPolicy, ...policy },
    taskOf: (uid) => (uid === taskUid ? task : undefined),
    since: () => since,
    publish: (report) => void reports.push(report),
    ...{ clock, log: silentLogger },
  });
  const receive = async (...messages: readonly ExecMessage[]): Promise<void> => {
    for (const message of messages) execs.receive(message);
    await settle();
  };
  return { clock, reports, sessions, execs, receive };
}

/** Lets streams and promises proceed. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await setImmediate();
}

it("starts a command once, however often its message is repeated", async () => {
  const { receive, sessions, reports } = setUp();
  await receive(startOf(1), startOf(1));
  await receive(startOf(1));
  expect(sessions).toHaveLength(1);
  sessions[0]?.end(3);
  await settle();
  expect(reports).toEqual([{ id: idOf(1), seq: 0, kind: "exited", exitCode: 3 }]);
  await receive(startOf(1));
  expect(sessions).toHaveLength(1);
  expect(reports.at(-1)).toMatchObject({ kind: "failed", message: "it was repeated" });
});

it.each([
  ["that was sent before the agent started", { issuedAt: 999 }, /before the agent started/],
  ["for another attempt", { attempt: 1 }, /does not have this attempt/],
  ["for a task that it does not have", { taskUid: idOf(9) }, /does not have this attempt/],
])("rejects a command %s", async (_, change, message) => {
  const { receive, sessions, reports } = setUp();
  await receive(startOf(1, change));
  expect(sessions).toEqual([]);
  expect(reports).toMatchObject([{ kind: "failed", message: expect.stringMatching(message) }]);
});

it.each([
  [{ exec: false }, "the robot's policy does not allow exec"],
  [{ commands: ["/bin/"] }, 'the program "sh" is not allowed; the robot\'s policy allows /bin/'],
  // A command runs as the task's user, which the policy has allowed.
  [{ users: ["robot"] }, undefined],
])("runs commands under the policy %j", async (policy, message) => {
  const { receive, sessions, reports } = setUp({ policy });
  await receive(startOf(1));
  expect(sessions).toHaveLength(message === undefined ? 1 : 0);
  expect(reports).toMatchObject(message === undefined ? [] : [{ kind: "failed", message }]);
});

it("limits the number of commands", async () => {
  const { receive, sessions, reports } = setUp();
  await receive(...Array.from({ length: 9 }, (_, n) => startOf(n)));
  expect(sessions).toHaveLength(8);
  expect(reports).toMatchObject([{ id: idOf(8), message: "the robot already runs the maximum of 8 commands" }]);
});

it("ends a command whose input was lost, and ignores repeated input", async () => {
  const { receive, sessions, reports } = setUp();
  const data = Buffer.from("x").toString("base64");
  const input = (seq: number): ExecMessage => ({ id: idOf(1), seq, kind: "input", data });
  await receive(startOf(1), input(1), input(1), input(2));
  expect(sessions[0]?.stdin.read()?.toString()).toBe("xx");
  await receive(input(4));
  expect(reports).toMatchObject([{ kind: "failed", message: "a message to the robot was lost" }]);
});

it("ends a command whose caller is silent, but not one that pings", async () => {
  const { receive, clock, reports } = setUp();
  await receive(startOf(1), startOf(2));
  await clock.advance(execSilenceMs - 1);
  await receive({ id: idOf(2), seq: 1, kind: "ping" });
  await clock.advance(1);
  await settle();
  expect(reports).toMatchObject([{ id: idOf(1), kind: "failed", message: "the caller has stopped reporting" }]);
});

it("stops reading the output when the window is used up, until it is credited", async () => {
  const { receive, clock, reports, sessions } = setUp();
  await receive(startOf(1));
  const sent = (): number =>
    reports.reduce((sum, report) => sum + (report.kind === "output" ? Buffer.from(report.data, "base64").length : 0), 0);
  const advance = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn++) {
      await settle();
      await clock.advance(20);
    }
  };
  void sessions[0]?.stdout.write(Buffer.alloc(3 * execWindowBytes));
  await advance();
  expect(sent()).toBe(execWindowBytes);
  await receive({ id: idOf(1), seq: 1, kind: "credit", bytes: 70_000 });
  await advance();
  expect(sent()).toBeGreaterThan(execWindowBytes);
  expect(sent()).toBeLessThanOrEqual(execWindowBytes + 70_000);
});

it("ends a command whose server sends more input than was credited", async () => {
  const { receive, reports, sessions } = setUp();
  const data = Buffer.alloc(execWindowBytes / 4).toString("base64");
  const input = (seq: number): ExecMessage => ({ id: idOf(1), seq, kind: "input", data });
  await receive(startOf(1), ...[1, 2, 3, 4].map(input));
  expect(reports).toEqual([]);
  await receive(input(5));
  const message = "the server sent more than 262144 bytes of input that were not credited";
  expect(reports).toMatchObject([{ kind: "failed", message }]);
  expect(sessions[0]?.stdin.destroyed).toBe(true);
});

it("loses what follows a start that takes long, beyond a number of messages, and ends the command", async () => {
  const { execs, reports } = setUp();
  execs.receive(startOf(1));
  for (let seq = 1; seq <= 66; seq++) execs.receive({ id: idOf(1), seq, kind: "ping" });
  await settle();
  expect(reports).toEqual([]);
  execs.receive({ id: idOf(1), seq: 67, kind: "ping" });
  await settle();
  expect(reports).toMatchObject([{ kind: "failed", message: "a message to the robot was lost" }]);
});

it.each([
  ["its caller has gone", "the caller disconnected"],
  ["its time is over", "the command exceeded its time limit of 60 s"],
])("ends a command whose child keeps the output open when %s, and frees its slot", async (_, message) => {
  const { receive, reports, sessions, clock } = setUp();
  for (let n = 1; n <= 8; n++) await receive(startOf(n));
  sessions[0]?.exit(0);
  await settle();
  expect(reports).toEqual([]);
  if (message === "the caller disconnected") await receive({ id: idOf(1), seq: 1, kind: "close" });
  else {
    for (let seq = 1; seq <= 3; seq++) {
      await clock.advance(20_000);
      await receive({ id: idOf(1), seq, kind: "ping" });
    }
  }
  expect(reports.filter(({ id }) => id === idOf(1))).toEqual([{ id: idOf(1), seq: 0, kind: "failed", message }]);
  expect(sessions[0]?.stdout.destroyed).toBe(true);
  await receive(startOf(9));
  expect(sessions).toHaveLength(9);
});

it("ends all commands when the agent stops", async () => {
  const { receive, execs, reports } = setUp();
  await receive(startOf(1), startOf(2));
  execs.stop();
  await settle();
  expect(reports.map((report) => "message" in report && report.message)).toEqual([
    "the robot's agent is stopping",
    "the robot's agent is stopping",
  ]);
});
