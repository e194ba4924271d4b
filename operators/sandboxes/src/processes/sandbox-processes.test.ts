import { once } from "node:events";
import { PassThrough } from "node:stream";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import type { ExecSession, ExecSpec } from "@keelson/execution";
import { beforeEach, expect, it } from "vitest";
import type { ProcessStart } from "./process-operations.ts";
import { type ProcessHost, SandboxProcesses } from "./sandbox-processes.ts";

/** A command that ends when it is killed, or when the test calls `end`. */
class FakeSession implements ExecSession {
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly signals: string[] = [];
  #end: (end: { readonly exitCode: number }) => void = () => {};
  readonly #exited = new Promise<{ readonly exitCode: number }>((resolve) => (this.#end = resolve));
  end(exitCode: number): void {
    this.stdout.end();
    this.stderr.end();
    this.#end({ exitCode });
  }
  resize = (): Promise<void> => Promise.resolve();
  signal(signal: string): Promise<void> {
    this.signals.push(signal);
    return Promise.resolve();
  }
  kill(): Promise<void> {
    this.end(137);
    return Promise.resolve();
  }
  exited = (): Promise<{ readonly exitCode: number }> => this.#exited;
}

let clock: VirtualClock;
let processes: SandboxProcesses;
let sessions: FakeSession[];
let started: ExecSpec[];
let uses: number;
let exit: () => void;
let host: ProcessHost;

const start = (processId: string, changes: Partial<ProcessStart> = {}): ProcessStart => ({
  ...{ kind: "start", processId, command: ["sh"], env: {}, hasInput: true, timeoutMs: 0, maxUnattendedMs: 0 },
  ...changes,
});

beforeEach(() => {
  clock = createVirtualClock();
  [sessions, started, uses] = [[], [], 0];
  processes = new SandboxProcesses(clock, () => {
    uses += 1;
    return () => void (uses -= 1);
  });
  const exited = new Promise<never>((resolve) => (exit = resolve as () => void));
  host = {
    id: "one",
    exited: () => exited,
    exec(spec) {
      const session = new FakeSession();
      started.push(spec);
      sessions.push(session);
      return Promise.resolve(session);
    },
  };
});

const statuses = async () => (await processes.run(host, { kind: "list" })).processes;

it("starts a process once, however often the start is repeated", async () => {
  const all = await Promise.all([processes.run(host, start("a")), processes.run(host, start("a"))]);
  expect(all.map((each) => each.processes[0]?.state)).toEqual(["running", "running"]);
  expect([started.length, uses]).toEqual([1, 1]);
  await expect(processes.run(host, start("a", { command: ["other"] }))).rejects.toMatchObject({ code: "Conflict" });
  sessions[0]?.end(3);
  await (await processes.find(host, "a")).ended;
  expect(await statuses()).toMatchObject([{ processId: "a", state: "exited", exitCode: 3 }]);
  expect(uses).toBe(0);
});

it("writes repeated input once, and rejects input that skips bytes", async () => {
  await processes.run(host, start("a"));
  const write = async (offset: number, text: string, isEnd = false) =>
    (await processes.run(host, { kind: "input", processId: "a", offset, data: Buffer.from(text).toString("base64"), isEnd }))
      .processes[0]?.inputBytes;
  expect([await write(0, "abc"), await write(0, "abc"), await write(2, "cd", true)]).toEqual([3, 3, 4]);
  await expect(write(9, "x")).rejects.toMatchObject({ code: "Invalid" });
  expect(sessions[0]?.stdin.read().toString()).toBe("abcd");
  await processes.run(host, start("b", { hasInput: false }));
  const refused = processes.run(host, { kind: "input", processId: "b", offset: 0, data: "", isEnd: true });
  await expect(refused).rejects.toMatchObject({ code: "Conflict" });
});

it("accepts no more input than a process that does not read can hold", async () => {
  await processes.run(host, start("a"));
  const data = Buffer.alloc(400_000).toString("base64");
  const write = async (offset: number) =>
    (await processes.run(host, { kind: "input", processId: "a", offset, data, isEnd: false })).processes[0]?.inputBytes;
  expect(await write(0)).toBe(400_000);
  const second = write(400_000);
  await clock.advance(3_000);
  expect(await second).toBe(400_000);
  sessions[0]?.stdin.resume();
  expect(await write(400_000)).toBe(800_000);
});

it("ends an input that the process has not read yet once it has read it", async () => {
  await processes.run(host, start("a"));
  const data = Buffer.alloc(400_000).toString("base64");
  await processes.run(host, { kind: "input", processId: "a", offset: 0, data, isEnd: false });
  const closed = processes.run(host, { kind: "input", processId: "a", offset: 400_000, data: "", isEnd: true });
  await clock.advance(3_000);
  await closed;
  let bytes = 0;
  for await (const chunk of sessions[0]?.stdin ?? []) bytes += (chunk as Buffer).length;
  expect(bytes).toBe(400_000);
});

it("writes input once if repeats of it wait for the process to read", async () => {
  await processes.run(host, start("a"));
  const write = async (offset: number, size: number) =>
    (
      await processes.run(host, {
        ...{ kind: "input", processId: "a", offset, isEnd: false },
        data: Buffer.alloc(size).toString("base64"),
      })
    ).processes[0]?.inputBytes;
  await write(0, 400_000);
  const repeats = Promise.all([write(400_000, 10), write(400_000, 10)]);
  let bytes = 0;
  sessions[0]?.stdin.on("data", (chunk: Buffer) => (bytes += chunk.length));
  expect(await repeats).toEqual([400_010, 400_010]);
  sessions[0]?.stdin.end();
  await once(sessions[0]?.stdin ?? new PassThrough(), "end");
  expect(bytes).toBe(400_010);
});

it("kills a process after its timeout", async () => {
  await processes.run(host, start("a", { timeoutMs: 5_000 }));
  await clock.advance(5_000);
  await (await processes.find(host, "a")).ended;
  expect(await statuses()).toMatchObject([{ state: "timed-out", exitCode: 137 }]);
});

it("kills a process once nothing follows its output, and not while something does", async () => {
  await processes.run(host, start("a", { maxUnattendedMs: 1_000 }));
  const process = await processes.find(host, "a");
  const control = new AbortController();
  const reader = process.output(0, control.signal);
  const first = reader.next();
  await clock.advance(10_000);
  expect(process.status.state).toBe("running");
  control.abort();
  expect(await first).toMatchObject({ done: true });
  await clock.advance(1_000);
  await process.ended;
  expect(process.status).toMatchObject({ state: "abandoned", exitCode: 137 });
});

it("ends the output of a command whose descendants keep its pipes open", async () => {
  await processes.run(host, start("a"));
  const [session] = sessions;
  session?.stdout.write("text");
  const process = await processes.find(host, "a");
  const parts: string[] = [];
  const reading = (async () => {
    for await (const part of process.output(0, new AbortController().signal))
      if (part.kind === "stdout") parts.push(String(part.data));
  })();
  session?.stderr.end();
  const { stdout } = session ?? {};
  // Exits without the end of standard output.
  if (session !== undefined) session.stdout.end = () => session.stdout;
  session?.end(0);
  await clock.advance(2_000);
  await reading;
  expect([parts, process.status.exitCode, stdout?.destroyed]).toEqual([["text"], 0, true]);
});

it("signals a process, and kills it with SIGKILL", async () => {
  await processes.run(host, start("a"));
  await processes.run(host, { kind: "signal", processId: "a", signal: "SIGTERM" });
  expect([sessions[0]?.signals, (await statuses())[0]?.state]).toEqual([["SIGTERM"], "running"]);
  await processes.run(host, { kind: "signal", processId: "a", signal: "SIGKILL" });
  await (await processes.find(host, "a")).ended;
  expect((await statuses())[0]?.state).toBe("exited");
});

it("keeps at most 32 processes and forgets the oldest that has ended", async () => {
  for (let index = 0; index < 32; index++) await processes.run(host, start(`p${index}`));
  await expect(processes.run(host, start("more"))).rejects.toMatchObject({ code: "TooMany" });
  sessions[4]?.end(0);
  await (await processes.find(host, "p4")).ended;
  await clock.advance(0);
  await processes.run(host, start("more"));
  await expect(processes.run(host, { kind: "signal", processId: "p4", signal: "SIGTERM" })).rejects.toMatchObject({
    code: "NotFound",
  });
  expect(await statuses()).toHaveLength(32);
});

it("forgets the processes of a sandbox that has ended", async () => {
  await processes.run(host, start("a"));
  exit();
  await clock.advance(0);
  expect(await statuses()).toEqual([]);
});
