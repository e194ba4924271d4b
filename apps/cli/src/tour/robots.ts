import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { DeepReadonly } from "@keelson/api-machinery";
import { issueToken, Job, Robot, Task, TaskGroup } from "@keelson/robots";
import { collect } from "./collect.ts";
import type { FamilyTour, TourContext, TourResult } from "./family-tour.ts";
import type { Row } from "./live-view.ts";
import { applyManifest, namespace, readExample, removeOld } from "./manifests.ts";

/** A Job on two robots, whose agents run as separate processes during the tour. */
export const robotsTour: FamilyTour = {
  family: "robots",
  title: "a Job on two robots (examples/robots/hello.yaml)",
  needs: [],
  prepare(context) {
    const starting = startRobots(context).catch((error: unknown) => {
      const note = `could not start: ${error instanceof Error ? error.message : String(error)}`;
      context.show(robotIds.map((id) => ({ ...robotRow(id, false), note, mood: "bad" })));
      return [];
    });
    return {
      async stop() {
        await Promise.all((await starting).map(stopChild));
      },
    };
  },
  run,
};

const robotIds = ["robot-001", "robot-002"] as const;
const command = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));

/** Starts the robots' agents, each with a join token that it exchanges for a certificate. */
async function startRobots(context: TourContext): Promise<readonly ChildProcess[]> {
  const { client, clock } = context;
  const store = { client, namespace, fieldManager: "keelson-tour" };
  const tokens: (readonly [robotId: string, token: string])[] = [];
  for (const robot of robotIds) {
    const { text } = await issueToken(store, { robot, ttlMs: tokenLifeMs }, clock.now());
    tokens.push([robot, text]);
  }
  // Nothing is started if a token could not be created.
  return tokens.map(([robotId, token]) => startRobot(robotId, token, context));
}

const tokenLifeMs = 10 * 60_000;

function startRobot(robotId: string, token: string, { dir: parent, endpoints }: TourContext): ChildProcess {
  const dir = join(parent, robotId);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const tokenFile = join(dir, "join-token");
  writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
  const log = openSync(join(dir, "agent.log"), "a", 0o600);
  const flags = [
    "--broker-url",
    endpoints.mqtt ?? "",
    "--robot-id",
    robotId,
    "--token-file",
    tokenFile,
    "--work-dir",
    join(dir, "tasks"),
  ];
  // In its own session, so that Ctrl-C reaches the tour only, which then stops its robots in order.
  const child = spawn(
    process.execPath,
    [command, "robots", "agent", ...flags, "--label", "env=demo", "--stop-tasks-on-exit", "--log-level", "info"],
    {
      stdio: ["ignore", log, log],
      detached: true,
    },
  );
  closeSync(log);
  // If an agent of a killed run still serves this work directory, the new one logs that and exits.
  child.on("error", () => {});
  return child;
}

function stopChild(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) {
      resolve();
      return;
    }
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
  });
}

async function run({ client, clock, signal, show: onRows }: TourContext): Promise<TourResult> {
  await collect(
    client,
    [{ type: Robot, namespace }],
    signal,
    () => {},
    (objects) => {
      const online = objects
        .of(Robot)
        .filter((robot) => robotIds.some((id) => id === robot.spec.robotId) && robot.status?.phase === "Online");
      onRows(
        robotIds.map((id) =>
          robotRow(
            id,
            online.some((robot) => robot.spec.robotId === id),
          ),
        ),
      );
      return online.length === robotIds.length;
    },
  );

  const manifests = readExample("robots/hello.yaml");
  const jobName = manifests.find((manifest) => manifest.kind === "Job")?.metadata.name ?? "hello";
  await removeOld(client, Job, jobName, signal);
  for (const manifest of manifests) await applyManifest(client, [Job], manifest, signal);

  const labelSelector = `job=${jobName}`;
  const started = clock.monotonic();
  const objects = await collect(
    client,
    [
      { type: Job, namespace, fieldSelector: `metadata.name=${jobName}` },
      { type: TaskGroup, namespace, labelSelector },
      { type: Task, namespace, labelSelector },
    ],
    signal,
    (seen) => onRows(rowsOf(seen.of(Job), seen.of(TaskGroup), seen.of(Task))),
    (seen) =>
      seen.of(Job).some((job) => isEnded(job.status?.state)) && seen.of(Task).every((task) => isEnded(task.status?.state)),
  );
  const job = objects.of(Job)[0];
  const tasks = objects.of(Task);
  const succeeded = job?.status?.state === "completed";
  const task = tasks.find((each) => each.status?.state === "failed") ?? tasks.find((each) => each.status?.logsStdout);
  const seconds = ((clock.monotonic() - started) / 1000).toFixed(1);
  return {
    succeeded,
    summary: `Job ${jobName} ${succeeded ? "Completed" : `ended ${job?.status?.state ?? "unknown"}`}: ${tasks.length} tasks on ${new Set(tasks.map((each) => each.spec.targetRobot)).size} robots in ${seconds} s`,
    ...(task?.metadata.name
      ? {
          output: {
            title: `task ${task.metadata.name}`,
            text: `${task.status?.logsStdout ?? ""}${task.status?.logsStderr ?? ""}`,
          },
        }
      : {}),
  };
}

const isEnded = (state: string | undefined): boolean => state === "completed" || state === "failed";

type Seen<T> = readonly DeepReadonly<T>[];

function robotRow(id: string, isOnline: boolean): Row {
  return {
    key: id,
    depth: 0,
    kind: "Robot",
    name: id,
    state: isOnline ? "Online" : "Pending",
    note: isOnline ? "" : "waiting for its agent to register",
    mood: isOnline ? "good" : "waiting",
  };
}

function rowsOf(jobs: Seen<Job>, groups: Seen<TaskGroup>, tasks: Seen<Task>): Row[] {
  const rows: Row[] = [];
  const byName = <T extends { readonly metadata: { readonly name?: string | undefined } }>(a: T, b: T): number =>
    (a.metadata.name ?? "").localeCompare(b.metadata.name ?? "");
  for (const job of jobs) {
    const { status } = job;
    const name = job.metadata.name ?? "";
    rows.push(
      rowOf(
        name,
        0,
        "Job",
        name,
        status?.state,
        `${status?.succeededTasks ?? 0}/${status?.totalTasks ?? 0} tasks succeeded${status?.failedTasks ? `, ${status.failedTasks} failed` : ""}`,
      ),
    );
    for (const group of [...groups].sort(byName)) {
      const groupName = group.metadata.name ?? "";
      rows.push(
        rowOf(
          groupName,
          1,
          "TaskGroup",
          groupName,
          group.status?.state,
          `${group.status?.succeededTasks ?? 0}/${group.status?.totalTasks ?? 0}`,
        ),
      );
      for (const task of tasks.filter((each) => each.metadata.labels?.taskgroup === groupName).sort(byName)) {
        const taskName = task.metadata.name ?? "";
        const exit =
          task.status?.exitCode !== undefined && isEnded(task.status.state) ? `, exit code ${task.status.exitCode}` : "";
        const note = task.spec.targetRobot ? `on ${task.spec.targetRobot}${exit}` : (task.status?.message ?? "");
        rows.push(
          rowOf(
            taskName,
            2,
            "Task",
            taskName,
            task.status?.state,
            task.status?.state === "failed" ? `${note}: ${task.status.message ?? ""}` : note,
          ),
        );
      }
    }
  }
  return rows;
}

function rowOf(key: string, depth: number, kind: string, name: string, state: string | undefined, note: string): Row {
  const mood = state === "completed" ? "good" : state === "failed" ? "bad" : state === "running" ? "running" : "waiting";
  return { key: `${kind}/${key}`, depth, kind, name, state: state ?? "", note, mood };
}
