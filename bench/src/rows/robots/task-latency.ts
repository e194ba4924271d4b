import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { connect } from "@keelson/client";
import { Robot, Task } from "@keelson/robots";
import { startKeelson } from "keelson/testing";
import { type Benchmark, percentile } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";

const tasks = 200;
const namespace = "default";

/**
 * From the request that creates a Task, over HTTPS, to the start of its program on a robot: API server, controller, bridge,
 * broker, agent. The program prints its start time, so that the status update is not measured.
 */
export const taskLatency: Benchmark = {
  name: "task-latency",
  async run() {
    const keelson = await startLocalKeelson();
    const brokerUrl = (await keelson.process.printed(/(tcp|mqtt):\/\/127\.0\.0\.1:\d+/))[0];
    const workDir = join(keelson.dir, "robot");
    mkdirSync(workDir);
    const agent = startKeelson([
      ...["robots", "agent", "--broker-url", brokerUrl, "--robot-id", "bench", "--work-dir", workDir],
      ...["--token-file", join(keelson.dir, "keelson", "robots", "join-token"), "--stop-tasks-on-exit"],
    ]);
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    try {
      await waitFor(
        client.watch(Robot, { namespace, fieldSelector: "metadata.name=bench" }),
        (robot) => robot.status?.phase === "Online",
      );
      const latencies: number[] = [];
      const spawns: number[] = [];
      const watch = await client.watch(Task, { namespace });
      const events = watch[Symbol.asyncIterator]();
      for (let index = 0; index < tasks; index++) {
        const name = `bench-${index}`;
        const created = Date.now();
        await client.create(Task, {
          metadata: { name, namespace },
          spec: { name, driver: "raw_exec", config: { execConfig: { command: "/bin/date", args: ["+%s%N"] } } },
        });
        latencies.push((await startedAt(events, name)) - created);
        spawns.push(await spawnLatency());
      }
      watch.close();
      return [0.5, 0.99].map((fraction) => ({
        name: `Task created -> program started, p${fraction * 100}`,
        unit: "ms" as const,
        ours: percentile(latencies, fraction),
        peer: { name: "spawn of the same program", value: percentile(spawns, fraction) },
        original: { what: "polls every 2 s: mean wait", value: 1000 },
        note: `${tasks} tasks, sequentially`,
      }));
    } finally {
      await client.close();
      await agent.stop();
      await keelson.stop();
    }
  },
};

type Watched<T> = Promise<AsyncIterable<{ readonly type: string; readonly object: T }> & { close(): void }>;

async function waitFor<T>(watching: Watched<T>, isDone: (object: T) => boolean): Promise<void> {
  const watch = await watching;
  for await (const event of watch) if (isDone(event.object)) break;
  watch.close();
}

/** Start time of the task's program from its output, in milliseconds since the epoch. */
async function startedAt(events: AsyncIterator<{ readonly object: unknown }>, name: string): Promise<number> {
  for (;;) {
    const next = await events.next();
    if (next.done) throw new Error("the watch of Tasks ended");
    const task = next.value.object as Task;
    if (task.metadata.name !== name) continue;
    if (task.status?.state === "failed") throw new Error(`task ${name} failed: ${task.status.message}`);
    if (task.status?.state === "completed") return Number(task.status.logsStdout) / 1e6;
  }
}

/** The lower bound: starting the same program from Node.js, by the same clock. */
async function spawnLatency(): Promise<number> {
  const started = Date.now();
  const child = spawn("/bin/date", ["+%s%N"], { stdio: ["ignore", "pipe", "inherit"] });
  const [output] = (await once(child.stdout, "data")) as [Buffer];
  return Number(output.toString()) / 1e6 - started;
}
