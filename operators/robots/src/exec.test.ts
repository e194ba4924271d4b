import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Duplex, PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { Event } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import type { CommandDefinition, FlagValues } from "@keelson/operator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startAgent } from "./agent/agent.ts";
import { type RobotPolicy, defaultRobotPolicy } from "./agent/policy/robot-policy.ts";
import { Task } from "./api/task.ts";
import { execCommand } from "./commands/exec/exec.ts";
import { logsCommand } from "./commands/exec/logs.ts";
import type { RunningAgent } from "./commands/start-agent.ts";
import { issueToken } from "./commands/token.ts";
import { connectExec } from "./exec/connect-exec.ts";
import { encodeFrame, type FrameType, readFrames } from "./exec/exec-frames.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";

let robots: RobotsEnvironment;
let client: Client;
let dir: string;
const agents = new Map<string, RunningAgent>();

/* The tests share an operator and its robots. Each task runs until the end. */

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-exec-"));
  robots = await RobotsEnvironment.start();
  client = robots.client;
  await start("exec-one");
  await start("exec-strict", { ...defaultRobotPolicy, commands: ["/bin/sleep"] });
  await running("main", "exec-one");
});

afterAll(async () => {
  for (const agent of agents.values()) await agent.stop();
  await robots[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

async function start(robotId: string, policy: RobotPolicy = defaultRobotPolicy): Promise<void> {
  const store = { client, namespace, fieldManager: "test" };
  const { text: token } = await issueToken(store, { robot: robotId, ttlMs: 60_000 }, Date.now());
  const agent = await startAgent({
    ...{ brokerUrl: robots.url, robotId, token, heartbeatIntervalMs: 30_000, workDir: join(dir, robotId), labels: {} },
    ...{ clock: systemClock, log: silentLogger, stopTasksOnExit: true, policy },
  });
  agents.set(robotId, agent);
  await robots.online(robotId);
}

/** Starts a task that runs until its robot's agent stops. */
async function running(name: string, targetRobot: string): Promise<void> {
  const execConfig = { command: "/bin/sleep", args: ["600"] };
  const spec = { name, targetRobot, driver: "raw_exec" as const, config: { execConfig }, restartPolicy: { attempts: 0 } };
  await client.create(Task, { metadata: { name, namespace }, spec });
  await watched(client, Task, name, (task) => task?.status?.state === "running");
}

const accessFile = (): string => join(robots.dataDir, "exec-access.json");
const access = (): { readonly url: string; readonly token: string } => JSON.parse(readFileSync(accessFile(), "utf8"));

interface Caller {
  readonly socket: Duplex;
  send(type: FrameType, data?: string | Buffer): void;
  /** Everything that the command wrote, and its end. */
  ended(): Promise<{ readonly stdout: string; readonly stderr: string; readonly end: Readonly<Record<string, unknown>> }>;
  /** What the command has written so far. */
  stdout(): string;
  /** Resolves when the output contains a text. */
  printed(part: string): Promise<void>;
}

async function call(
  task: string,
  request: unknown,
  change: { readonly token?: string; readonly request?: "log" } = {},
): Promise<Caller> {
  const signal = new AbortController().signal;
  const { socket, head } = await connectExec({ ...access(), namespace, task, request: "exec", signal, ...change });
  const send = (type: FrameType, data: string | Buffer = ""): void =>
    void socket.write(encodeFrame(type, Buffer.from(data as string)));
  const output = { stdout: "", stderr: "" };
  let end: Readonly<Record<string, unknown>> = {};
  let wake = (): void => {};
  send("start", JSON.stringify(request));
  const done = (async () => {
    for await (const { type, data } of readFrames(socket, head)) {
      if (type === "stdout" || type === "stderr") output[type] += data.toString("latin1");
      else end = JSON.parse(data.toString());
      wake();
    }
    wake();
  })();
  return {
    ...{ socket, send },
    stdout: () => output.stdout,
    async ended() {
      await done;
      return { ...output, end };
    },
    async printed(part: string) {
      while (!output.stdout.includes(part)) await new Promise<void>((resolve) => (wake = resolve));
    },
  };
}

async function runCommand(
  command: CommandDefinition,
  args: readonly string[],
  flags: FlagValues,
): Promise<readonly [number, string, string]> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const status = await command.run({
    ...{ args, flags, stdout, stderr, clock: systemClock, log: silentLogger },
    signal: new AbortController().signal,
    client: () => Promise.reject(new Error("not used")),
  });
  return [status, ...(await Promise.all([text(stdout.end()), text(stderr.end())]))] as const;
}

const sh = (script: string, more: object = {}) => ({ command: ["/bin/sh", "-c", script], timeoutMs: 60_000, ...more });

/** Waits for an event about a task. */
async function event(reason: string, note: RegExp): Promise<void> {
  const watch = await client.watch(Event, { namespace, resourceVersion: "0" });
  try {
    for await (const each of watch) {
      if (each.type !== "BOOKMARK" && each.object.reason === reason && note.test(each.object.message ?? "")) return;
    }
  } finally {
    watch.close();
  }
}

describe("a command alongside a task", () => {
  it("gets input, and its output and exit status reach the caller", async () => {
    const caller = await call("main", sh("cat; echo oops >&2; exit 7"));
    caller.send("stdin", "hello ");
    caller.send("stdin", "robot");
    caller.send("endStdin");
    expect(await caller.ended()).toEqual({ stdout: "hello robot", stderr: "oops\n", end: { exitCode: 7 } });
    await event("ExecStarted", /the user of the operator's machine runs "\/bin\/sh" with 2 arguments/);
    await event("ExecEnded", /ended with status 7/);
  });

  it("streams more than the windows of both directions without loss", async () => {
    const caller = await call("main", sh("cat"));
    const data = Buffer.alloc(700_000, "0123456789abcdef\n");
    for (let from = 0; from < data.length; from += 50_000) caller.send("stdin", data.subarray(from, from + 50_000));
    caller.send("endStdin");
    const { stdout, end } = await caller.ended();
    expect(end).toEqual({ exitCode: 0 });
    expect(stdout === data.toString("latin1")).toBe(true);
  });

  it("runs on a terminal whose size can change", async () => {
    const script = 'trap "stty size; exit 0" WINCH; stty size; echo ready; while :; do sleep 0.02; done';
    const caller = await call("main", sh(script, { terminal: { columns: 90, rows: 30 } }));
    await caller.printed("ready");
    caller.send("resize", JSON.stringify({ columns: 101, rows: 41 }));
    const { stdout, end } = await caller.ended();
    expect(end).toEqual({ exitCode: 0 });
    expect(stdout).toMatch(/30 90[\s\S]*41 101/);
  });

  it("ends when its caller has gone", async () => {
    const caller = await call("main", sh("echo started; sleep 600"));
    await caller.printed("started");
    caller.socket.destroy();
    await event("ExecEnded", /the caller disconnected/);
  });

  it("takes what it started with it when its caller has gone after it exited", async () => {
    const caller = await call("main", sh("sleep 100000 & echo $!"));
    await caller.printed("\n");
    const pid = Number(caller.stdout());
    expect(pid).toBeGreaterThan(1);
    caller.socket.destroy();
    const isGone = (): boolean => {
      try {
        return readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z ");
      } catch {
        return true;
      }
    };
    await expect.poll(isGone).toBe(true);
  });

  it("ends when its time is over", async () => {
    const caller = await call("main", sh("sleep 600", { timeoutMs: 300 }));
    expect((await caller.ended()).end).toEqual({ message: "the command exceeded its time limit of 0.3 s" });
  });
});

describe("the output of a task", () => {
  const logs = { isFollowing: false, streams: ["stdout", "stderr"] };

  /** Starts a task with a script that ends when the file `end` is in its directory. */
  async function writing(name: string, script: string): Promise<void> {
    const execConfig = { command: "/bin/sh", args: ["-c", script] };
    const spec = {
      name,
      targetRobot: "exec-one",
      driver: "raw_exec" as const,
      config: { execConfig },
      restartPolicy: { attempts: 0 },
    };
    await client.create(Task, { metadata: { name, namespace }, spec });
  }

  it("is followed until the program exits, and can be read after that", async () => {
    await writing("writes", "echo one; echo oops >&2; until [ -e end ]; do sleep 0.05; done; echo two");
    await watched(client, Task, "writes", (task) => task?.status?.state === "running");
    const reader = await call("writes", { ...logs, isFollowing: true }, { request: "log" });
    await reader.printed("one\n");
    await (await call("writes", sh("touch end"))).ended();
    expect(await reader.ended()).toEqual({ stdout: "one\ntwo\n", stderr: "oops\n", end: { exitCode: 0 } });
    await watched(client, Task, "writes", (task) => task?.status?.state === "completed");
    const tail = await call("writes", { ...logs, tailLines: 1 }, { request: "log" });
    expect(await tail.ended()).toEqual({ stdout: "two\n", stderr: "oops\n", end: { exitCode: 0 } });
  });

  it("arrives without loss if it is larger than the windows", async () => {
    await writing("large", "i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); done");
    await watched(client, Task, "large", (task) => task?.status?.state === "completed");
    const { stdout } = await (await call("large", logs, { request: "log" })).ended();
    expect(stdout === Array.from({ length: 60_000 }, (_, line) => `line ${line}\n`).join("")).toBe(true);
  });

  it.each([
    [{ streams: ["stdin"], isFollowing: true }, "streams: must be a list of stdout and stderr"],
    [{ ...logs, tailLines: -1 }, "tailLines: must be between 0 and 1000000"],
    [{ command: ["sh"], timeoutMs: 1000 }, "isFollowing: must be true or false"],
  ])("is rejected with an invalid request: %j", async (request, message) => {
    expect((await (await call("main", request, { request: "log" })).ended()).end).toEqual({ message });
  });
});

describe("keelson robots exec", () => {
  const run = (args: readonly string[], flags: FlagValues = {}): Promise<readonly [number, string, string]> =>
    runCommand(execCommand, args, { "access-file": accessFile(), ...flags });

  it("has the output and the exit status of the command", async () => {
    const script = "echo out; echo err >&2; exit 5";
    expect(await run(["main", "/bin/sh", "-c", script])).toEqual([5, "out\n", "err\n"]);
  });

  it("says why it cannot run a command", async () => {
    expect(await run(["no-such-task", "sh"])).toEqual([1, "", "task no-such-task not found in this namespace\n"]);
    expect((await run(["main", "/no/such/program"]))[0]).toBe(127);
    expect(await run(["main"])).toEqual([2, "", "COMMAND: required, after --, as in: exec TASK -- sh\n"]);
    const [status, , message] = await run(["main", "sh"], { "access-file": join(dir, "missing.json") });
    expect([status, message]).toEqual([
      2,
      expect.stringContaining("use DIR/robots/exec-access.json of the running keelson up"),
    ]);
    const [plain, , problem] = await run(["main", "sh"], { endpoint: "http://127.0.0.1:1" });
    expect([plain, problem]).toEqual([2, expect.stringContaining("must be of the form https://host:port")]);
  });
});

describe("keelson robots logs", () => {
  it("prints the output of a task", async () => {
    const execConfig = { command: "/bin/sh", args: ["-c", "echo out; echo more; echo err >&2"] };
    const spec = { name: "prints", targetRobot: "exec-one", driver: "raw_exec" as const, config: { execConfig } };
    await client.create(Task, { metadata: { name: "prints", namespace }, spec });
    await watched(client, Task, "prints", (task) => task?.status?.state === "completed");
    const flags = { "access-file": accessFile() };
    expect(await runCommand(logsCommand, ["prints"], flags)).toEqual([0, "out\nmore\n", "err\n"]);
    expect(await runCommand(logsCommand, ["prints"], { ...flags, tail: "1", stream: "stdout" })).toEqual([0, "more\n", ""]);
    expect(await runCommand(logsCommand, ["none"], flags)).toEqual([1, "", "task none not found in this namespace\n"]);
  });
});

describe("a caller", () => {
  it("needs the token, which only the user of the operator can read", async () => {
    expect(statSync(accessFile()).mode & 0o777).toBe(0o600);
    await expect(call("main", sh("true"), { token: "wrong" })).rejects.toThrow("the token is not the one in exec-access.json");
  });

  it.each([
    ["an unknown task", "no-such-task", sh("true"), "task no-such-task not found in this namespace"],
    ["no command", "main", { command: [], timeoutMs: 1000 }, "command: must name a program"],
    ["a command with NUL", "main", { command: ["a\0b"], timeoutMs: 1000 }, "command: must not contain NUL characters"],
    [
      "a huge command",
      "main",
      { command: ["a".repeat(40_000)], timeoutMs: 1000 },
      "command: is 40001 bytes; must be at most 32768 bytes",
    ],
    ["no time", "main", { command: ["a"] }, "timeoutMs: must be between 1 and 86400000"],
    ["a terminal without a size", "main", sh("true", { terminal: {} }), "terminal: must have columns and rows"],
  ])("is rejected with %s", async (_, task, request, message) => {
    expect((await (await call(task, request)).ended()).end).toEqual({ message });
  });

  it("is disconnected if it sends anything but frames of a caller", async () => {
    const caller = await call("main", sh("cat"));
    caller.send("exit", "{}");
    expect((await caller.ended()).end).toEqual({});
    const other = await call("main", sh("cat"));
    other.socket.write(Buffer.from([1, 255, 255, 255, 255]));
    expect((await other.ended()).end).toEqual({});
  });

  it("cannot run a command that the robot's owner does not allow", async () => {
    await running("strict", "exec-strict");
    const { end } = await (await call("strict", sh("true"))).ended();
    expect(end).toEqual({ message: 'the program "/bin/sh" is not allowed; the robot\'s policy allows /bin/sleep' });
    const { end: allowed } = await (await call("strict", { command: ["/bin/sleep", "0"], timeoutMs: 60_000 })).ended();
    expect(allowed).toEqual({ exitCode: 0 });
  });
});
