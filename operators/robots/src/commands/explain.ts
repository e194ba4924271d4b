import { type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import { type CommandDefinition, renderTable } from "@keelson/operator";
import { Job } from "../api/job.ts";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { demandOf } from "../placement/demand.ts";
import { explainRobots } from "../placement/placement.ts";
import { loadOfTasks } from "../placement/robot-loads.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots explain TASK`. */
export const explainCommand: CommandDefinition = {
  name: "explain",
  description: "show the state of a task, and for each robot whether the task fits and why not",
  args: ["TASK"],
  flags: [namespaceFlag],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const [name = ""] = args;
    const namespace = namespaceFlag.read(flags);
    const client = await connect();
    try {
      const task = await client.get(Task, { namespace, name }, { signal });
      const [jobs, robots, tasks] = await Promise.all([
        client.list(Job, { namespace, signal }),
        client.list(Robot, { namespace, signal }),
        client.list(Task, { namespace, signal }),
      ]);
      const job = jobs.items.find(({ metadata }) => metadata.name === task.spec.jobName);
      stdout.write(explainTask({ task, job, robots: robots.items, tasks: tasks.items }));
      return 0;
    } catch (error) {
      if (!isNotFound(error)) throw error;
      stderr.write(`task ${name} not found in namespace ${namespace}; list tasks: kubectl get rtask -n ${namespace}\n`);
      return 1;
    } finally {
      await client.close();
    }
  },
};

/** The state of a task and a table of robots. */
export function explainTask({
  task,
  job,
  robots,
  tasks,
}: {
  readonly task: DeepReadonly<Task>;
  readonly job: DeepReadonly<Job> | undefined;
  readonly robots: readonly DeepReadonly<Robot>[];
  readonly tasks: readonly DeepReadonly<Task>[];
}): string {
  const { status, spec, metadata } = task;
  const facts = [
    ["Task:", metadata.name ?? ""],
    ["State:", status?.state || "pending"],
    ["Message:", status?.message ?? "-"],
    ["Robot:", spec.targetRobot ?? "-"],
    ["Attempt:", String(status?.attempt ?? 0)],
    ["Moves:", String(status?.moves ?? 0)],
  ];
  const isBound = spec.targetRobot !== undefined && status?.attempt !== undefined;
  // The robot of a bound task does not pin it.
  const { pinned, ...demand } = demandOf(task, job);
  const wanted = isBound || pinned === undefined ? demand : { ...demand, pinned };
  const others = tasks.filter((each) => each.metadata.uid !== metadata.uid);
  const reasons = explainRobots(wanted, robots, (robot) => loadOfTasks(others, robot));
  const rows = robots.map(({ metadata: robot }, index) => [
    robot.name ?? "",
    reasons[index] === undefined ? "yes" : "no",
    reasons[index] ?? "",
  ]);
  return `${renderTable(facts)}\n${renderTable([["ROBOT", "FITS", "REASON"], ...rows])}`;
}
