import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sleep, systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { createProcessDriver, findBubblewrap } from "@keelson/execution";
import { startBroker } from "../broker/broker.ts";
import type { Broker } from "../broker/broker.ts";
import type { AgentOptions, RunningAgent } from "../commands/start-agent.ts";
import { type RecordingServer, startRecordingServer } from "../testing/recording-server.ts";
import { startAgent } from "./agent.ts";
import type { AgentDependencies } from "./agent-dependencies.ts";
import { defaultRobotPolicy } from "./policy/robot-policy.ts";
import { readBootMs } from "./read-device-info.ts";

const robotId = "robot-1";
const token = "join-me";

let base: string;
let workDir: string;
const cleanups: (() => Promise<unknown>)[] = [];

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-agent-")));
  workDir = join(base, "tasks");
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  rmSync(base, { recursive: true, force: true });
});

async function startServer(at: Broker, options: { readonly acknowledges: boolean }): Promise<RecordingServer> {
  const server = await startRecordingServer(at, robotId, options);
  cleanups.push(() => server.leave());
  return server;
}

async function broker(port = 0): Promise<Broker> {
  const started = await startBroker({ port, joinToken: token, log: silentLogger });
  cleanups.push(() => started.stop());
  return started;
}

async function agent(
  url: string,
  extras: AgentDependencies & Partial<Pick<AgentOptions, "stopTasksOnExit" | "policy">> = {},
): Promise<RunningAgent> {
  const options = {
    robotId,
    token,
    workDir,
    heartbeatIntervalMs: 30_000,
    labels: { site: "a" },
    clock: systemClock,
    log: silentLogger,
  };
  const started = await startAgent({ brokerUrl: url, ...options, stopTasksOnExit: false, ...extras });
  cleanups.push(() => started.stop());
  return started;
}

const shell = (script: string, more: object = {}): object => ({
  name: "t",
  driver: "exec",
  config: { execConfig: { command: "/bin/sh", args: ["-c", script] } },
  ...more,
});

/** Whether the process exists and is not a zombie. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

const file = (name: string): string => join(base, name);

const commandOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
};

/** Process group of a process. */
const groupOf = (pid: string): number => Number(readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ")[2]);

test("an agent registers, runs a task, and reports its start and its exit with the output", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  expect(server.registrations[0]).toMatchObject({
    robotId,
    token,
    labels: { site: "a" },
    tasks: [],
    deviceInfo: { platform: { os: "linux" } },
  });
  const uid = randomUUID();
  await server.send("create", uid, 1, shell('echo "out $K8S4R_ATTEMPT $PWD"; echo err >&2; exit 3'));
  const end = await server.status((status) => status.state === "failed");
  expect(server.statuses.map((status) => [status.event, status.seq])).toEqual([
    ["Started", 1],
    ["Failed", 2],
  ]);
  expect(end).toMatchObject({
    taskUid: uid,
    robotName: robotId,
    exitCode: 3,
    logsStderr: "err\n",
    logsStdout: `out 1 ${join(workDir, uid)}\n`,
  });
  expect(readFileSync(join(workDir, uid, "logs", "stdout.log"), "utf8")).toBe(end.logsStdout);
  expect(server.online.at(-1)).toBe(true);
});

test("the start of a program is reported even if it exits before the agent looks", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  const driver = await createProcessDriver({ dir: join(base, "programs"), clock: systemClock, random: Math.random });
  const start = driver.start.bind(driver);
  driver.start = async (spec) => {
    const program = await start(spec);
    await program.exited();
    return program;
  };
  await agent(at.url, { driver });
  await server.registered(1);
  await server.send("create", randomUUID(), 1, shell("exit 3"));
  await server.status((status) => status.state === "failed");
  expect(server.statuses.map((status) => status.event)).toEqual(["Started", "Failed"]);
});

test("a task does not see the agent's environment", async () => {
  process.env.AGENT_SECRET = "leak";
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  await server.send("create", randomUUID(), 1, shell("env", { env: { MINE: "1" } }));
  const { logsStdout = "" } = await server.status((status) => status.state === "completed");
  delete process.env.AGENT_SECRET;
  expect(logsStdout).toContain("MINE=1");
  expect(logsStdout).not.toContain("AGENT_SECRET");
});

test("a task that is dispatched many times runs once", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  const uid = randomUUID();
  const spec = shell(`echo ran >>${file("ran")}`);
  await Promise.all(Array.from({ length: 20 }, () => server.send("create", uid, 1, spec)));
  await server.status((status) => status.state === "completed");
  await server.send("create", uid, 1, spec);
  await server.send("delete", uid, 1);
  await server.status((status) => status.state === "deleted");
  await server.send("create", uid, 1, spec);
  const other = randomUUID();
  await server.send("create", other, 1, shell("true"));
  await server.status((status) => status.taskUid === other && status.state === "completed");
  expect(readFileSync(file("ran"), "utf8")).toBe("ran\n");
});

test("a timeout is reported once the program is dead, and nothing after it", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  const script = `trap "" TERM; echo $$ >${file("pid")}; while :; do sleep 600; done`;
  await server.send("create", randomUUID(), 1, shell(script, { timeout: "200ms", killTimeout: "100ms" }));
  const end = await server.status((status) => status.event === "Timeout");
  expect(end).toMatchObject({ state: "failed", exitCode: 137, message: "Task terminated: Task timeout" });
  expect(isRunning(Number(readFileSync(file("pid"), "utf8")))).toBe(false);
  expect(server.statuses.at(-1)).toEqual(end);
});

test("a delete stops the task's whole process tree and removes its files", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  const uid = randomUUID();
  await server.send(
    "create",
    uid,
    1,
    shell(`(setsid sh -c 'echo $$ >${file("pid")}; exec sleep 600' &); sleep 600`, { killTimeout: "1s" }),
  );
  await server.status((status) => status.state === "running");
  let pid = 0;
  while (pid === 0)
    pid = Number(statSync(file("pid"), { throwIfNoEntry: false })?.size ? readFileSync(file("pid"), "utf8") : 0);
  await server.send("delete", uid, 1);
  await server.status((status) => status.state === "deleted");
  expect(isRunning(pid)).toBe(false);
  expect(readdirSync(workDir)).toEqual([".agent"]);
  expect(readdirSync(join(workDir, ".agent", "programs")).filter((name) => !name.startsWith("."))).toEqual([]);
});

test("an unknown driver is rejected with the list of known ones", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url, { policy: { ...defaultRobotPolicy, drivers: ["exec"] } });
  await server.registered(1);
  await server.send("create", randomUUID(), 1, { ...shell("true"), driver: "raw_exec" });
  const end = await server.status((status) => status.state === "failed");
  expect(end).toMatchObject({ event: "StartFailed", message: expect.stringMatching(/raw_exec.*it has exec/) });
});

test.skipIf(findBubblewrap() === undefined)(
  "an isolated program sees its own directory and what the policy names, and the next agent reports its exit",
  async () => {
    const at = await broker();
    const server = await startServer(at, { acknowledges: true });
    writeFileSync(file("secret"), "secret");
    writeFileSync(file("shared"), "shared");
    const isolation = { network: "shared", paths: [file("shared")], writablePaths: [] } as const;
    const policy = { ...defaultRobotPolicy, isolation };
    const first = await agent(at.url, { policy });
    await server.registered(1);
    const uid = randomUUID();
    const script = `cat ${file("secret")}; cat ${file("shared")}; echo x > ${file("shared")}; echo own > own; cat own; : > started`;
    await server.send("create", uid, 1, shell(`${script}; while ! [ -e go ]; do sleep 0.02; done; exit 3`));
    await expect.poll(() => existsSync(join(workDir, uid, "started"))).toBe(true);
    await first.stop();
    await agent(at.url, { policy });
    writeFileSync(join(workDir, uid, "go"), "");
    const { logsStdout, logsStderr, exitCode } = await server.status((status) => status.state === "failed");
    expect([logsStdout, exitCode, readFileSync(file("shared"), "utf8")]).toEqual(["sharedown\n", 3, "shared"]);
    expect(logsStderr).toMatch(/secret: No such file/);
  },
);

test("an agent reconnects to a restarted broker, lists its tasks and loses no status", async () => {
  const first = await broker();
  const before = await startServer(first, { acknowledges: false });
  await agent(first.url, { random: () => 0 });
  await before.registered(1);
  const uid = randomUUID();
  await before.send("create", uid, 1, shell(`while ! [ -e ${file("gate")} ]; do sleep 0.02; done; exit 5`));
  await before.status((status) => status.state === "running");
  await before.leave();
  await first.stop();
  writeFileSync(file("gate"), "");
  // The program ends while there is no broker.
  const record = join(workDir, ".agent", "tasks", `${uid}.json`);
  while (!readFileSync(record, "utf8").includes('"ended"')) await new Promise((resolve) => setTimeout(resolve, 10));

  const second = await broker(Number(new URL(first.url).port));
  const after = await startServer(second, { acknowledges: true });
  const end = await after.status((status) => status.state === "failed");
  expect(end).toMatchObject({ taskUid: uid, attempt: 1, seq: 2, exitCode: 5 });
  await after.registered(1);
  expect(after.registrations[0]?.tasks).toEqual([{ taskUid: uid, attempt: 1 }]);
});

test("a stopped agent leaves its tasks running, and the next one reports their real exit", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  const first = await agent(at.url);
  await server.registered(1);
  const uid = randomUUID();
  await server.send("create", uid, 1, shell(`while ! [ -e ${file("gate")} ]; do sleep 0.02; done; exit 7`));
  await server.status((status) => status.state === "running");
  await first.stop();
  await first.done;
  expect(server.online.at(-1)).toBe(false);
  await agent(at.url);
  writeFileSync(file("gate"), "");
  expect(await server.status((status) => status.state === "failed")).toMatchObject({ exitCode: 7, attempt: 1, seq: 2 });
});

const commandLines = (): readonly string[] =>
  readdirSync("/proc").flatMap((pid) => {
    try {
      return [readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")];
    } catch {
      // Not a process, or one that has exited.
      return [];
    }
  });

test("a task that ended while there was no agent is reported with the time of its end", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  const first = await agent(at.url);
  await server.registered(1);
  await server.send(
    "create",
    randomUUID(),
    1,
    shell(`while ! [ -e ${file("gate")} ]; do sleep 0.02; done; echo >${file("end")}`),
  );
  await server.status((status) => status.state === "running");
  await first.stop();
  writeFileSync(file("gate"), "");
  // The end is recorded when neither the program nor its shim runs any more.
  await expect.poll(() => commandLines().filter((command) => command.includes(file("gate")))).toEqual([]);
  await sleep(systemClock, 1500);
  const returnedAt = systemClock.now();
  await agent(at.url);
  const { finishedAt = "" } = await server.status((status) => status.state === "completed");
  expect(Date.parse(finishedAt)).toBeLessThan(returnedAt - 1000);
});

test("a timeout counts from the start of the program and is never early", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  const script = "date +%s%3N; trap 'date +%s%3N; exit 1' TERM; sleep 60 & wait";
  for (let run = 0; run < 3; run++) {
    const uid = randomUUID();
    await server.send("create", uid, 1, shell(script, { timeout: "500ms" }));
    const timedOut = await server.status((status) => status.taskUid === uid && status.event === "Timeout");
    const [, end = 0] = (timedOut.logsStdout ?? "").trim().split("\n").map(Number);
    // Both times are rounded to milliseconds.
    expect(end - Date.parse(timedOut.startedAt ?? "")).toBeGreaterThan(497);
  }
});

test("with stopTasksOnExit the tasks stop with the agent, which reports it", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  const first = await agent(at.url, { stopTasksOnExit: true });
  await server.registered(1);
  await server.send("create", randomUUID(), 1, shell("exec sleep 600"));
  await server.status((status) => status.state === "running");
  await first.stop();
  expect(await server.status((status) => status.state === "failed")).toMatchObject({ exitCode: 143 });
});

test("an agent connects with its own credential once the server has bound the robot to it", async () => {
  const bound = new Map<string, string>();
  const at = await startBroker({
    port: 0,
    joinToken: token,
    log: silentLogger,
    credentialOf: (id) => bound.get(id),
  });
  cleanups.push(() => at.stop());
  const server = await startServer(at, { acknowledges: true });
  const first = await agent(at.url);
  await server.registered(1);
  const { credentialSha256 = "" } = server.registrations[0] ?? {};
  expect(credentialSha256).toMatch(/^[0-9a-f]{64}$/);
  await server.bind();
  const credentialFile = join(workDir, ".agent", "credential.json");
  while (!readFileSync(credentialFile, "utf8").includes("true")) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(statSync(credentialFile).mode & 0o777).toBe(0o600);
  await first.stop();
  bound.set(robotId, credentialSha256);
  await agent(at.url);
  await server.registered(2);
});

test("a damaged record does not lose a running task", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  const first = await agent(at.url);
  await server.registered(1);
  const uid = randomUUID();
  await server.send("create", uid, 4, shell(`while ! [ -e ${file("gate")} ]; do sleep 0.02; done; exit 7`));
  await server.status((status) => status.state === "running");
  await first.stop();
  const record = join(workDir, ".agent", "tasks", `${uid}.json`);
  writeFileSync(record, readFileSync(record, "utf8").slice(0, 40));
  await agent(at.url);
  writeFileSync(file("gate"), "");
  const end = await server.status((status) => status.state === "failed");
  expect(end).toMatchObject({ exitCode: 7, attempt: 4 });
  expect(end.seq).toBeGreaterThan(1);
});

test("a robot that cannot write a record runs nothing and says why", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  const records = join(workDir, ".agent", "tasks");
  rmSync(records, { recursive: true });
  writeFileSync(records, "");
  await server.send("create", randomUUID(), 1, shell(`echo ran >${file("ran")}`));
  const end = await server.status((status) => status.state === "failed");
  expect(end).toMatchObject({ event: "StartFailed", message: expect.stringContaining("disk") });
  expect(readdirSync(base)).not.toContain("ran");
});

/** An agent in its own process, to be killed. */
const killable = `
  import { startAgent } from ${JSON.stringify(new URL("../../dist/agent/agent.js", import.meta.url).href)};
  import { sleep, systemClock } from "@keelson/api-machinery/time";
  import { silentLogger } from "@keelson/controller";
import { createProcessDriver } from "@keelson/execution";
  const [brokerUrl, robotId, token, workDir] = process.argv.slice(1);
  await startAgent({ brokerUrl, robotId, token, workDir, heartbeatIntervalMs: 30000, labels: {}, clock: systemClock, log: silentLogger, stopTasksOnExit: false });
`;

test("after kill -9 of the agent its tasks keep running, none runs twice, and the next agent reports their real exits", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  const child: ChildProcess = spawn(
    process.execPath,
    ["--input-type=module", "-e", killable, at.url, robotId, token, workDir],
    {
      stdio: "inherit",
      cwd: new URL("../../", import.meta.url).pathname,
    },
  );
  cleanups.push(async () => child.kill("SIGKILL"));
  await server.registered(1);
  const [runs, ends] = [randomUUID(), randomUUID()];
  const script = (gate: string, code: number) =>
    shell(`echo ran >>${file("ran")}; while ! [ -e ${file(gate)} ]; do sleep 0.02; done; exit ${code}`);
  await server.send("create", runs, 1, script("gate-1", 7));
  await server.send("create", ends, 1, script("gate-2", 9));
  for (const uid of [runs, ends]) await server.status((status) => status.taskUid === uid && status.state === "running");
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
  writeFileSync(file("gate-2"), "");
  await agent(at.url);
  await server.send("create", runs, 1, script("gate-1", 7));
  expect(await server.status((status) => status.taskUid === ends && status.state === "failed")).toMatchObject({ exitCode: 9 });
  writeFileSync(file("gate-1"), "");
  expect(await server.status((status) => status.taskUid === runs && status.state === "failed")).toMatchObject({ exitCode: 7 });
  expect(readFileSync(file("ran"), "utf8")).toBe("ran\nran\n");
});

test("a service restarts without a broker, and the next agent continues its restarts", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  const first = await agent(at.url);
  await server.registered(1);
  const uid = randomUUID();
  const script = `echo run >> ${file("runs")}; [ -e ${file("fails")} ] || sleep 600`;
  const spec = { type: "service", restartPolicy: { attempts: 50, interval: "1h", delay: "10ms" } };
  await server.send("create", uid, 1, shell(script, spec));
  await server.status((status) => status.state === "running");
  await at.stop();
  const runs = (): number => readFileSync(file("runs"), "utf8").split("\n").length - 1;
  await expect.poll(() => existsSync(file("runs")) && runs()).toBe(1);
  writeFileSync(file("fails"), "");
  for (const program of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    if (commandOf(program).includes(file("fails")) && isRunning(Number(program))) process.kill(-groupOf(program), "SIGTERM");
  }
  await expect.poll(runs).toBeGreaterThanOrEqual(3);
  await first.stop();
  rmSync(file("fails"));
  const before = runs();
  await agent(at.url, { stopTasksOnExit: true });
  await expect.poll(runs).toBeGreaterThan(before);
});

test("a restart does not follow a link that the program put in place of its directory of logs", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url, { stopTasksOnExit: true });
  await server.registered(1);
  const uid = randomUUID();
  const outside = file("outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "stdout.log"), "safe");
  const script = `[ -e ${file("again")} ] && { echo second; : > ${file("restarted")}; exec sleep 600; }
    : > ${file("again")}; rm -r logs; ln -s ${outside} logs; exit 1`;
  const spec = { type: "service", restartPolicy: { attempts: 50, interval: "1h", delay: "10ms" } };
  await server.send("create", uid, 1, shell(script, spec));
  const output = join(workDir, uid, "logs", "stdout.log");
  await expect.poll(() => existsSync(file("restarted")), { timeout: 60_000 }).toBe(true);
  await expect.poll(() => existsSync(output) && readFileSync(output, "utf8"), { timeout: 60_000 }).toBe("second\n");
  expect(readdirSync(outside)).toEqual(["stdout.log"]);
  expect(readFileSync(join(outside, "stdout.log"), "utf8")).toBe("safe");
});

test("a leased program starts when its lease is granted, and is stopped without contact when it expires", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  let suspendedMs = 0;
  await agent(at.url, { bootMs: () => readBootMs() + suspendedMs });
  await server.registered(1);
  const uid = randomUUID();
  await server.send("create", uid, 1, shell(`echo $$ > ${file("pid")}; sleep 600`, { disconnect: { lostAfter: "1h" } }));
  const request = await server.leaseRequest();
  expect(request.tasks).toEqual([{ taskUid: uid, attempt: 1 }]);
  expect(server.statuses).toEqual([]);
  await server.grant(request);
  await server.status((status) => status.state === "running");
  await expect.poll(() => existsSync(file("pid")) && readFileSync(file("pid"), "utf8")).toMatch(/\d+\n/);
  suspendedMs = 3_600_000;
  const end = await server.status((status) => status.state === "failed");
  expect(end).toMatchObject({ leaseExpired: true, attempt: 1 });
  expect(isRunning(Number(readFileSync(file("pid"), "utf8")))).toBe(false);
});

test("init tasks run in order before the program, daemons alongside it until it ends, and a failed one fails the attempt", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  const init = (name: string, script: string, more: object = {}) => ({ ...(shell(script) as object), name, ...more });
  const uid = randomUUID();
  const initTasks = [
    init("first", "echo $K8S4R_ATTEMPT >first"),
    init("daemon", 'echo $$ >daemon; trap "echo stopped >>first; exit" TERM; while :; do sleep 0.05; done', { daemon: true }),
    init("second", "while ! [ -e daemon ]; do sleep 0.02; done; cat first >second"),
  ];
  await server.send("create", uid, 1, shell("cat second; kill -0 $(cat daemon) && echo alive", { initTasks }));
  const end = await server.status((status) => status.taskUid === uid && status.state === "completed");
  expect(end.logsStdout).toBe("1\nalive\n");
  expect(readFileSync(join(workDir, uid, "first"), "utf8")).toBe("1\nstopped\n");
  expect(isRunning(Number(readFileSync(join(workDir, uid, "daemon"), "utf8")))).toBe(false);
  const failing = randomUUID();
  const broken = [
    init("daemon", "echo $$ >daemon; exec sleep 600", { daemon: true }),
    init("check", "echo no map >&2; exit 3"),
  ];
  await server.send("create", failing, 1, shell(`touch ${file("ran")}`, { initTasks: broken }));
  const failed = await server.status((status) => status.taskUid === failing && status.state === "failed");
  expect(failed).toMatchObject({
    event: "StartFailed",
    message: expect.stringContaining("init task check: program exited with code 3: no map"),
  });
  expect(isRunning(Number(readFileSync(join(workDir, failing, "daemon"), "utf8")))).toBe(false);
  expect(existsSync(file("ran"))).toBe(false);
});

test("a task that is deleted during an init task runs nothing more", async () => {
  const at = await broker();
  const server = await startServer(at, { acknowledges: true });
  await agent(at.url);
  await server.registered(1);
  const uid = randomUUID();
  const initTasks = [{ ...(shell(`echo $$ >${file("init")}; exec sleep 600`) as object), name: "slow" }];
  await server.send("create", uid, 1, shell(`touch ${file("ran")}`, { initTasks }));
  await expect.poll(() => existsSync(file("init"))).toBe(true);
  await server.send("delete", uid, 1);
  await server.status((status) => status.taskUid === uid && status.state === "deleted");
  expect(isRunning(Number(readFileSync(file("init"), "utf8")))).toBe(false);
  expect(existsSync(file("ran"))).toBe(false);
});
