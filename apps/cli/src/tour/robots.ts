import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  apiVersionOf,
  type Clock,
  type DeepReadonly,
  isNotFound,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import type { ApplyConfiguration, Client } from "@keelson/client";
import { Job, Robot, Task, TaskGroup } from "@keelson/robots";
import { parseAllDocuments } from "yaml";
import { collect } from "./collect.ts";
import type { Row } from "./live-view.ts";

/** Where the tour's robots find the broker, and where they keep their files. */
export interface TourRobotsOptions {
  readonly brokerUrl: string;
  readonly tokenFile: string;
  /** A folder for the robots' work and logs. */
  readonly dir: string;
}

/** Options of {@link runRobotsTour}. */
export interface RobotsTourOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onRows: (rows: readonly Row[]) => void;
}

/** How the tour's Job ended. */
export interface RobotsTourResult {
  readonly succeeded: boolean;
  /** One line: how it ended. */
  readonly summary: string;
  /** Which task's output it is, and the output. */
  readonly output?: { readonly task: string; readonly text: string };
}

/** The tour's robots. */
export interface TourRobots {
  stop(): Promise<void>;
}

const robotIds = ["robot-001", "robot-002"] as const;
const namespace = "default";
const example = fileURLToPath(new URL("../../../../examples/robots/hello.yaml", import.meta.url));
const command = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));

/** Starts two robots as processes of their own: `keelson robots agent ...`. */
export function startTourRobots(options: TourRobotsOptions): TourRobots {
  const children = robotIds.map((robotId) => startRobot(robotId, options));
  return {
    async stop() {
      await Promise.all(children.map(endChild));
    },
  };
}

function startRobot(robotId: string, options: TourRobotsOptions): ChildProcess {
  const dir = join(options.dir, robotId);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const log = openSync(join(dir, "agent.log"), "a", 0o600);
  const flags = [
    "--broker-url",
    options.brokerUrl,
    "--robot-id",
    robotId,
    "--token-file",
    options.tokenFile,
    "--work-dir",
    join(dir, "tasks"),
  ];
  // A session of its own: Ctrl-C reaches the tour, and the tour ends its robots in order.
  const child = spawn(
    process.execPath,
    [command, "robots", "agent", ...flags, "--label", "env=demo", "--stop-tasks-on-exit", "--log-level", "info"],
    {
      stdio: ["ignore", log, log],
      detached: true,
    },
  );
  closeSync(log);
  // An agent left over from a killed run still serves this work folder; a second one says so in its log and ends.
  child.on("error", () => {});
  return child;
}

function endChild(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) {
      resolve();
      return;
    }
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
  });
}

/** Applies `examples/robots/hello.yaml`, shows its Job, TaskGroups and Tasks until the Job has ended. */
export async function runRobotsTour(options: RobotsTourOptions): Promise<RobotsTourResult> {
  const { client, clock, signal, onRows } = options;
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

  const manifests = readManifests(example);
  const jobName = manifests.find((manifest) => manifest.kind === "Job")?.metadata.name ?? "hello";
  await removeOld(client, jobName, signal);
  for (const manifest of manifests) {
    const { apiVersion: _apiVersion, kind: _kind, ...configuration } = manifest;
    await client.apply(
      typeOf(manifest),
      {
        ...configuration,
        metadata: { namespace, ...manifest.metadata, name: manifest.metadata.name ?? "" },
      } as ApplyConfiguration<KubernetesObject>,
      {
        fieldManager: "keelson-tour",
        fieldValidation: "Strict",
        signal,
      },
    );
  }

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
      ? { output: { task: task.metadata.name, text: `${task.status?.logsStdout ?? ""}${task.status?.logsStderr ?? ""}` } }
      : {}),
  };
}

const isEnded = (state: string | undefined): boolean => state === "completed" || state === "failed";

async function removeOld(client: Client, name: string, signal: AbortSignal): Promise<void> {
  try {
    await client.delete(Job, { namespace, name }, { propagationPolicy: "Foreground", signal });
  } catch (error) {
    if (isNotFound(error)) return;
    throw error;
  }
  await collect(
    client,
    [{ type: Job, namespace, fieldSelector: `metadata.name=${name}` }],
    signal,
    () => {},
    (seen) => seen.of(Job).length === 0,
  );
}

function readManifests(file: string): KubernetesObject[] {
  const documents = parseAllDocuments(readFileSync(file, "utf8"));
  return documents.map((document) => document.toJS() as KubernetesObject | null).filter((object) => object !== null);
}

function typeOf(manifest: KubernetesObject): ResourceType {
  const type = [Job, TaskGroup, Task, Robot].find(
    (each) => apiVersionOf(each) === manifest.apiVersion && each.kind === manifest.kind,
  );
  if (!type) throw new Error(`${example}: ${manifest.apiVersion} ${manifest.kind} is no kind of the robots family`);
  return type;
}

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
