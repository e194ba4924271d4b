import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ResourceType } from "@keelson/api-machinery";
import { sleep, systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { Job, Task, TaskGroup } from "@keelson/robots";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { killAndRestart } from "../testing/kill.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { freePort, startTcpProxy } from "../testing/tcp-proxy.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/* The tests share a `keelson up`. Each has robots of its own, which its Job selects by the label `env`. */

const namespace = "default";
const folder = temporaryFolder();
let flags: readonly string[];
let keelson: TestKeelson;

beforeAll(async () => {
  // Agents find the broker again after a restart.
  const ports = ["--mqtt-port", String(await freePort()), "--api-port", String(await freePort())];
  flags = ["--only", "cluster,robots", ...ports];
  keelson = await startTestKeelson(folder.path, ...flags);
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** A group whose tasks are not retried. */
const once = { name: "g", restartPolicy: { attempts: 0, mode: "fail" as const } };

/** A Job of `count` tasks that run a shell line on robots whose label `env` is the Job's name. */
function jobOf(name: string, line: string, count = 1): Parameters<typeof createJob>[1] {
  return {
    metadata: { name, namespace },
    spec: {
      name,
      type: "batch",
      robotSelector: { env: name },
      taskGroups: [
        {
          ...once,
          count,
          tasks: [{ name: "t", driver: "exec", config: { execConfig: { command: "/bin/sh", args: ["-c", line] } } }],
        },
      ],
    },
  };
}

const createJob = (client: Client, job: Omit<Job, "apiVersion" | "kind">): Promise<unknown> => client.create(Job, job);

/** Waits until `isDone` returns true for a task of the Job. */
async function taskOf(client: Client, job: string, isDone: (task: Task) => boolean): Promise<Task> {
  const watch = await client.watch(Task, { namespace, labelSelector: `job=${job}`, resourceVersion: "0" });
  try {
    for await (const event of watch)
      if (event.type !== "BOOKMARK" && event.type !== "DELETED" && isDone(event.object as Task)) return event.object as Task;
  } finally {
    watch.close();
  }
  throw new Error(`the watch on tasks of ${job} ended`);
}

/** The uids of all objects of a kind. */
async function uids(client: Client, type: ResourceType): Promise<ReadonlySet<string | undefined>> {
  return new Set((await client.list(type, { namespace })).items.map(({ metadata }) => metadata.uid));
}

async function jobEnded(client: Client, name: string): Promise<string> {
  const watch = await client.watch(Job, { namespace, fieldSelector: `metadata.name=${name}`, resourceVersion: "0" });
  try {
    for await (const event of watch) {
      const state = event.type === "BOOKMARK" ? undefined : event.object.status?.state;
      if (state === "completed" || state === "failed") return state;
    }
  } finally {
    watch.close();
  }
  throw new Error(`the watch on ${name} ended`);
}

test("spreads tasks over the matching robots and keeps their output as files", async () => {
  await using _one = await keelson.startRobot("one", "--label", "env=spread");
  await using _two = await keelson.startRobot("two", "--label", "env=spread");
  await using _other = await keelson.startRobot("other", "--label", "env=elsewhere");
  const client = await keelson.client();
  await createJob(client, jobOf("spread", "echo here; echo there >&2; exit 0", 4));
  expect(await jobEnded(client, "spread")).toBe("completed");
  const tasks = (await client.list(Task, { namespace, labelSelector: "job=spread" })).items;
  expect(tasks.map((task) => task.spec.targetRobot).sort()).toEqual(["one", "one", "two", "two"]);
  expect(
    tasks.every(
      (task) => task.status?.exitCode === 0 && task.status.logsStdout === "here\n" && task.status.logsStderr === "there\n",
    ),
  ).toBe(true);
  const task = tasks[0];
  const log = join(folder.path, "agents", task?.spec.targetRobot ?? "", task?.metadata.uid ?? "", "logs", "stdout.log");
  expect(readFileSync(log, "utf8")).toBe("here\n");
  const group = await client.get(TaskGroup, { namespace, name: "spread-g" });
  expect([group.status?.state, group.status?.succeededTasks]).toEqual(["completed", 4]);
  await client.close();
});

test("fails a task whose program does not exist with the reason, and its Job", async () => {
  await using _agent = await keelson.startRobot("fails", "--label", "env=nowhere");
  const client = await keelson.client();
  const job = jobOf("nowhere", "");
  await createJob(client, {
    ...job,
    spec: {
      ...job.spec,
      taskGroups: [
        {
          ...once,
          count: 1,
          tasks: [{ name: "t", driver: "exec", config: { execConfig: { command: "/no/such/program" } } }],
        },
      ],
    },
  });
  const task = await taskOf(client, "nowhere", ({ status }) => status?.state === "failed");
  expect(task.status?.message).toContain("/no/such/program");
  expect(task.status?.exitCode).toBe(127);
  expect(await jobEnded(client, "nowhere")).toBe("failed");
  await client.close();
});

test("a timeout fails the task with exit code 143 and ends its process tree", async () => {
  await using _agent = await keelson.startRobot("times-out", "--label", "env=late");
  const client = await keelson.client();
  const job = jobOf("late", "");
  const config = { execConfig: { command: "/bin/sleep", args: ["60"] } };
  const task = { name: "t", driver: "exec" as const, timeout: "500ms", config };
  await createJob(client, { ...job, spec: { ...job.spec, taskGroups: [{ ...once, count: 1, tasks: [task] }] } });
  const ended = await taskOf(client, "late", ({ status }) => status?.state === "failed");
  expect(ended.status?.message).toContain("timeout");
  expect(ended.status?.exitCode).toBe(143);
  await client.close();
});

test("after kill -9 of up, keeps every object, completes running tasks, and runs none twice", async () => {
  const runs = join(folder.path, "runs");
  await using _agent = await keelson.startRobot("survivor", "--label", "env=survivor", "--label", "also=short");
  const before = await keelson.client();
  await createJob(
    before,
    jobOf("survivor", `echo $$ >> ${runs}; while [ ! -e ${folder.path}/go ]; do sleep 0.1; done; echo done`, 2),
  );
  const short = jobOf("short", `echo $$ >> ${runs}-short`);
  await createJob(before, { ...short, spec: { ...short.spec, robotSelector: { also: "short" } } });
  await taskOf(before, "survivor", ({ status }) => status?.state === "running");
  expect(await jobEnded(before, "short")).toBe("completed");
  const jobs = await uids(before, Job);
  expect(jobs.size).toBeGreaterThanOrEqual(2);
  const tasks = await uids(before, Task);
  await before.close();

  keelson = await killAndRestart(keelson, folder.path, ...flags);
  const after = await keelson.client();
  expect(await uids(after, Job)).toEqual(jobs);
  expect([...(await uids(after, Task))]).toEqual(expect.arrayContaining([...tasks]));
  // Release the tasks after the restart, whatever the state of the agent's connection.
  writeFileSync(join(folder.path, "go"), "");
  expect(await jobEnded(after, "survivor")).toBe("completed");
  expect(readFileSync(runs, "utf8").trim().split("\n")).toHaveLength(2);
  expect(readFileSync(`${runs}-short`, "utf8").trim().split("\n")).toHaveLength(1);
  await after.close();
});

test("loses no status while the broker connection is down for 10 s", async () => {
  await using proxy = await startTcpProxy(Number(new URL(keelson.brokerUrl).port));
  await using agent = startKeelson([
    ...[
      "robots",
      "agent",
      "--robot-id",
      "far",
      "--broker-url",
      `tcp://127.0.0.1:${proxy.port}`,
      "--token-file",
      join(keelson.dataDir, "robots", "join-token"),
    ],
    ...["--work-dir", join(folder.path, "agents", "far"), "--stop-tasks-on-exit", "--label", "env=cutoff"],
  ]);
  const client = await keelson.client();
  await createJob(client, jobOf("cutoff", "sleep 2; exit 3", 3));
  await taskOf(client, "cutoff", ({ status }) => status?.state === "running");
  proxy.cut();
  // The tasks end while the broker is unreachable. The wait is the injected fault.
  await sleep(systemClock, 10_000);
  proxy.restore();
  expect(await jobEnded(client, "cutoff")).toBe("failed");
  const tasks = (await client.list(Task, { namespace, labelSelector: "job=cutoff" })).items;
  expect(tasks.map((task) => [task.status?.state, task.status?.exitCode])).toEqual([
    ["failed", 3],
    ["failed", 3],
    ["failed", 3],
  ]);
  expect(agent.child.exitCode).toBeNull();
  await client.close();
});
