import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ResourceType } from "@keelson/api-machinery";
import { sleep, systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { freePort } from "@keelson/execution/testing";
import { Job, Task } from "@keelson/robots";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { killAndRestart } from "../testing/kill.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { startTcpProxy } from "../testing/tcp-proxy.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/* The tests share a `keelson up`. Each has robots of its own, which its Job selects by the `env` label. */

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
