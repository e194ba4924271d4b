import fc from "fast-check";
import { expect, test } from "vitest";
import type { Exited } from "@keelson/execution";
import { step } from "./agent-state.ts";
import { maxFinishedTasks, maxRecords } from "./held-task.ts";
import type { AgentEffect, AgentEvent, AgentState } from "./held-task.ts";

const uid = "00000000-0000-4000-8000-000000000001";
const uidOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const order = { command: ["true"] as const, env: {} };
const empty: AgentState = { robotId: "r1", bootId: "boot-1", tasks: new Map() };
const logs = { stdout: "out", stderr: "" };
const exit = (reason: Exited["reason"], exitCode: number): Exited => ({
  kind: "exited",
  reason,
  message: "m",
  exitCode,
  startedAt: 1,
  finishedAt: 2,
});

function run(
  events: readonly AgentEvent[],
  start = empty,
): { state: AgentState; effects: AgentEffect[]; last: readonly AgentEffect[] } {
  let state = start;
  const effects: AgentEffect[] = [];
  let last: readonly AgentEffect[] = [];
  events.forEach((event, now) => {
    const result = step(state, event, now);
    state = result.state;
    last = result.effects;
    effects.push(...last);
  });
  return { state, effects, last };
}

const create = (attempt: number, id = uid): AgentEvent => ({ kind: "create", uid: id, attempt, order });
const started = (attempt: number, id = uid): AgentEvent => ({ kind: "started", uid: id, attempt, startedAt: 1 });
const exited = (attempt: number, how = exit("Completed", 0), id = uid): AgentEvent => ({
  kind: "exited",
  uid: id,
  attempt,
  exited: how,
  logs,
});
const remove = (attempt: number, id = uid): AgentEvent => ({ kind: "delete", uid: id, attempt });
const kinds = (effects: readonly AgentEffect[]): readonly string[] => effects.map((effect) => effect.kind);
const reportsIn = (effects: readonly AgentEffect[]) =>
  effects.flatMap((effect) => (effect.kind === "publish" ? [effect.report] : []));

test("a task is recorded before it starts", () => {
  expect(kinds(run([create(1)]).effects)).toEqual(["save", "start"]);
});

test("reports have increasing sequence numbers, and the last one has the exit code and logs", () => {
  const reports = reportsIn(run([create(1), started(1), exited(1, exit("Error", 7))]).effects);
  expect(reports).toMatchObject([
    { state: "running", event: "Started", attempt: 1, seq: 1, robotName: "r1", taskUid: uid },
    { state: "failed", event: "Failed", attempt: 1, seq: 2, exitCode: 7, logsStdout: "out" },
  ]);
});

test.each([
  ["Completed", 0, "completed", "Completed", "Task completed"],
  ["Timeout", 143, "failed", "Timeout", "Task terminated: Task timeout"],
  ["StartFailed", 127, "failed", "StartFailed", "Task failed: m"],
  ["OOMKilled", 137, "failed", "Failed", "Task failed: OOMKilled: m"],
] as const)("%s is reported as in K8s4r", (reason, exitCode, state, event, message) => {
  expect(reportsIn(run([create(1), exited(1, exit(reason, exitCode))]).effects)).toMatchObject([
    { state, event, message, exitCode },
  ]);
});

test("an unknown exit code is omitted", () => {
  expect(reportsIn(run([create(1), exited(1, exit("Lost", -1))]).effects)[0]).not.toHaveProperty("exitCode");
});

test("a duplicate create starts nothing and repeats the last report", () => {
  expect(run([create(1), create(1)]).last).toEqual([]);
  expect(kinds(run([create(1), started(1), create(1)]).last)).toEqual(["publish"]);
  const finished = run([create(1), exited(1), { kind: "ack", uid, attempt: 1, seq: 1 }, create(1)]);
  expect(reportsIn(finished.last)).toMatchObject([{ state: "completed", seq: 1 }]);
});

test("a create of an earlier attempt changes nothing", () => {
  const before = run([create(2), started(2)]).state;
  expect(step(before, create(1), 9)).toEqual({ state: before, effects: [] });
});

test("a later attempt replaces an earlier one, which is stopped first", () => {
  const { last, state } = run([create(1), started(1), create(2)]);
  expect(kinds(last)).toEqual(["save", "discard", "start"]);
  expect(last[1]).toMatchObject({ attempt: 1 });
  // The exit of the earlier program is not reported.
  expect(step(state, exited(1), 9).effects).toEqual([]);
});

test("a task that cannot run here fails without starting a program", () => {
  const { effects } = run([{ kind: "create", uid, attempt: 1, problem: "no docker" }]);
  expect(kinds(effects)).toEqual(["save", "publish"]);
  expect(reportsIn(effects)).toMatchObject([
    { state: "failed", event: "StartFailed", message: expect.stringContaining("no docker"), permanent: true },
  ]);
});

test("a delete stops the program, removes the files and then confirms", () => {
  const { last, state } = run([create(1), started(1), remove(1)]);
  expect(kinds(last)).toEqual(["save", "discard", "clear"]);
  const answered = step(state, { kind: "removed", uid }, 9);
  expect(reportsIn(answered.effects)).toMatchObject([{ state: "deleted", event: "Deleted", attempt: 1, seq: 2 }]);
});

test("a later attempt does not start while an earlier one is being removed", () => {
  expect(run([create(1), started(1), remove(1), create(2)]).last).toEqual([]);
});

test("every delete of an unknown task is confirmed", () => {
  expect(reportsIn(run([remove(3)]).last)).toMatchObject([{ state: "deleted", attempt: 3 }]);
  expect(reportsIn(run([remove(3), remove(3)]).last)).toMatchObject([{ state: "deleted", attempt: 3 }]);
});

test("a delete confirms the attempt that it names, even one that never arrived", () => {
  const { state } = run([create(1), started(1), remove(2)]);
  expect(reportsIn(step(state, { kind: "removed", uid }, 9).effects)).toMatchObject([{ state: "deleted", attempt: 2, seq: 1 }]);
});

test("a late delete of an earlier attempt does not affect the current one", () => {
  expect(run([create(2), started(2), remove(1)]).last).toEqual([]);
});

test("a create after its delete starts nothing, but a later attempt does", () => {
  const gone = [create(1), remove(1), { kind: "removed", uid } as const];
  expect(run([...gone, create(1)]).last).toEqual([]);
  expect(kinds(run([...gone, create(2)]).last)).toEqual(["save", "start"]);
});

test("unacknowledged reports are repeated on every connect, acknowledged ones are not", () => {
  const before = [create(1), exited(1)];
  expect(reportsIn(run([...before, { kind: "connected" }]).last)).toMatchObject([{ state: "completed" }]);
  expect(run([...before, { kind: "ack", uid, attempt: 1, seq: 9 }, { kind: "connected" }]).last).toHaveLength(1);
  expect(run([...before, { kind: "ack", uid, attempt: 1, seq: 1 }, { kind: "connected" }]).last).toEqual([]);
});

test("unacknowledged reports are repeated with exponential backoff", () => {
  const { effects } = run([create(1), exited(1), ...Array.from({ length: 64 }, () => ({ kind: "tick" }) as const)]);
  // Once immediately, then after 1, 2, 4 ... 64 heartbeats.
  expect(reportsIn(effects)).toHaveLength(1 + 7);
});

test("files of the oldest finished tasks are removed and records stay bounded", () => {
  const events: AgentEvent[] = [];
  for (let n = 0; n < maxRecords + 200; n++) events.push(create(1, uidOf(n)), exited(1, exit("Completed", 0), uidOf(n)));
  const { state, effects } = run(events);
  expect(state.tasks.size).toBe(maxRecords);
  expect([...state.tasks.values()].filter((task) => task.programAttempt !== undefined)).toHaveLength(maxFinishedTasks);
  expect(effects.filter((effect) => effect.kind === "discard")).toHaveLength(maxRecords + 200 - maxFinishedTasks);
  expect(effects.filter((effect) => effect.kind === "forget")).toHaveLength(200);
});

test("unacknowledged reports outlive acknowledged ones", () => {
  const events: AgentEvent[] = [create(1, uidOf(0)), exited(1, exit("Completed", 0), uidOf(0))];
  for (let n = 1; n <= maxRecords; n++) {
    const ack = { kind: "ack", uid: uidOf(n), attempt: 1, seq: 1 } as const;
    events.push(create(1, uidOf(n)), exited(1, exit("Completed", 0), uidOf(n)), ack);
  }
  const { state } = run(events);
  expect(state.tasks.has(uidOf(0))).toBe(true);
  expect(state.tasks.has(uidOf(1))).toBe(false);
});

const anyEvent: fc.Arbitrary<AgentEvent> = fc
  .record({
    id: fc.integer({ min: 1, max: 2 }),
    attempt: fc.integer({ min: 0, max: 3 }),
    seq: fc.integer({ min: 0, max: 4 }),
    kind: fc.nat(7),
  })
  .map(({ id, attempt, seq, kind }): AgentEvent => {
    const target = uidOf(id);
    const made: readonly AgentEvent[] = [
      create(attempt, target),
      remove(attempt, target),
      started(attempt, target),
      exited(attempt, exit("Completed", 0), target),
      { kind: "removed", uid: target },
      { kind: "ack", uid: target, attempt, seq },
      { kind: "connected" },
      { kind: "tick" },
    ];
    return made[kind] ?? { kind: "tick" };
  });

test("for any sequence of events, an attempt starts once, sequence numbers increase, and only deleted follows a terminal report", () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
      const { effects } = run(events);
      const starts = effects.flatMap((effect) => (effect.kind === "start" ? [`${effect.uid}/${effect.attempt}`] : []));
      expect(new Set(starts).size).toBe(starts.length);
      const last = new Map<string, { seq: number; state: string }>();
      for (const report of reportsIn(effects)) {
        const key = `${report.taskUid}/${report.attempt}`;
        const before = last.get(key);
        const seq = report.seq ?? 0;
        expect(seq).toBeGreaterThanOrEqual(before?.seq ?? 1);
        if (before !== undefined && before.state !== "running" && report.state !== before.state)
          expect(report.state).toBe("deleted");
        last.set(key, { seq, state: report.state });
      }
    }),
    { numRuns: 500 },
  );
});

const template = {
  from: { text: '{{ label "bay" }}' },
  path: "a",
  left: "{{",
  right: "}}",
  mode: 0o644,
  onChange: "restart" as const,
};
const templated: AgentEvent = { kind: "create", uid, attempt: 1, order: { ...order, templates: [template] } };
const rendered: AgentEvent = { kind: "rendered", uid, attempt: 1, run: 0, digests: ["d1"] };
const changed = (more: object): AgentEvent => ({
  ...{ kind: "templates-changed", uid, attempt: 1, run: 0, digests: ["d2"], restart: false, signals: [], ...more },
});
const templatedRun = [templated, rendered, started(1)];

test("a program whose template changed is stopped and started again, whatever its restart policy", () => {
  const stopping = run([...templatedRun, changed({ restart: true, signals: ["SIGHUP"] })]);
  expect(stopping.last).toMatchObject([
    { kind: "save", task: { isReloading: true, rendered: ["d2"] } },
    { kind: "stop", attempt: 1 },
  ]);
  const restarting = run([exited(1, exit("Stopped", 143))], stopping.state);
  expect(reportsIn(restarting.effects)).toMatchObject([{ state: "running", event: "Restarting" }]);
  const again = run([{ kind: "restart-check" }], restarting.state);
  expect(kinds(again.last)).toEqual(["save", "discard", "start"]);
  expect(again.state.tasks.get(uid)).toMatchObject({ phase: "accepted", run: 1, rendered: ["d2"] });
  expect(again.state.tasks.get(uid)).not.toHaveProperty("isReloading");
});

test("a program that completes while it is stopped for a template is not started again", () => {
  const { effects } = run([...templatedRun, changed({ restart: true }), exited(1)]);
  expect(reportsIn(effects).at(-1)).toMatchObject({ state: "completed" });
});

test("a program whose template changed gets its signals", () => {
  const { last, state } = run([...templatedRun, changed({ signals: ["SIGHUP"] })]);
  expect(kinds(last)).toEqual(["save", "signal"]);
  expect(last[1]).toMatchObject({ signal: "SIGHUP", attempt: 1 });
  expect(state.tasks.get(uid)).toMatchObject({ phase: "running", rendered: ["d2"] });
});

test("a late change of templates affects no other program", () => {
  expect(run([templated, rendered, changed({ restart: true })]).last).toEqual([]);
  expect(run([...templatedRun, exited(1), changed({ restart: true })]).last).toEqual([]);
  expect(run([...templatedRun, remove(1), changed({ signals: ["SIGHUP"] })]).last).toEqual([]);
  expect(run([...templatedRun, changed({ run: 1, restart: true })]).last).toEqual([]);
});

test("a download is reported while the task is dispatching, and its failure by name", () => {
  const download: AgentEvent = { kind: "downloading", uid, attempt: 1, run: 0 };
  const failed = { ...exited(1, exit("StartFailed", 126)), isDownload: true } as AgentEvent;
  expect(reportsIn(run([create(1), download, failed]).effects)).toMatchObject([
    { state: "dispatching", event: "Downloading", seq: 1 },
    { state: "failed", event: "DownloadFailed", seq: 2 },
  ]);
  expect(run([create(1), started(1), download]).last).toEqual([]);
});

test("a task whose lease ends before its program has started is reported", () => {
  const lease = { durationMs: 60_000, graceMs: 1_000 };
  const leased: AgentEvent = { kind: "create", uid, attempt: 1, order: { ...order, lease } };
  const granted: AgentEvent = {
    kind: "lease-answer",
    granted: [{ taskUid: uid, attempt: 1 }],
    refused: [],
    requestedAtMs: 0,
    bootMs: 0,
  };
  const { effects } = run([leased, granted, { kind: "lease-check", bootMs: 60_000 }, exited(1, exit("Stopped", -1))]);
  expect(reportsIn(effects)).toMatchObject([{ state: "failed", leaseExpired: true }]);
});

const checked = (health: "passing" | "failing", more: object = {}): AgentEvent => ({
  ...{ kind: "checked", uid, attempt: 1, run: 0, health, message: "m" },
  ...more,
});

test("the health of a program is reported when it changes, and forgotten with the program", () => {
  const healthy = run([create(1), started(1), checked("failing"), checked("failing"), checked("passing")]);
  expect(reportsIn(healthy.effects).map(({ event, health }) => [event, health])).toEqual([
    ["Started", undefined],
    ["Unhealthy", "failing"],
    ["Healthy", "passing"],
  ]);
  expect(run([checked("passing")], healthy.state).effects).toEqual([]);
  expect(run([create(1), checked("passing")]).effects.length).toBe(2);
  expect(run([exited(1)], healthy.state).state.tasks.get(uid)).not.toHaveProperty("health");
});

test("a program whose checks failed is stopped, and fails or restarts by its policy", () => {
  const failed = checked("failing", { message: "check web failed 3 times in a row: status 500", restart: true });
  const plain = run([create(1), started(1), failed]);
  expect(plain.last).toMatchObject([{ kind: "save" }, { kind: "stop", uid, attempt: 1, run: 0 }]);
  expect(reportsIn(run([exited(1, exit("Stopped", 143))], plain.state).effects)).toMatchObject([
    { state: "failed", event: "Failed", message: expect.stringContaining("check web failed 3 times"), exitCode: 143 },
  ]);
  const policy = { attempts: 1, interval: "30m", delay: "0s", mode: "fail" as const };
  const service: AgentEvent = { kind: "create", uid, attempt: 1, order: { ...order, restart: { policy, count: 0 } } };
  const restarted = run([service, started(1), failed, exited(1, exit("Stopped", 143))]);
  expect(restarted.state.tasks.get(uid)).toMatchObject({ phase: "waiting" });
  expect(restarted.state.tasks.get(uid)).not.toHaveProperty("failedCheck");
  expect(reportsIn(restarted.last)).toMatchObject([{ event: "Restarting", message: expect.stringContaining("check web") }]);
  const again = run(
    [
      { kind: "restart-check" },
      { ...started(1), run: 1 } as AgentEvent,
      { ...failed, run: 1 } as AgentEvent,
      { ...exited(1, exit("Stopped", 143)), run: 1 } as AgentEvent,
    ],
    restarted.state,
  );
  expect(reportsIn(again.last)).toMatchObject([{ state: "failed", permanent: true }]);
});
