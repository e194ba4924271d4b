import { readFile } from "node:fs/promises";
import { addAbortSignal, type Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type DeepReadonly, ignoreNotFound, isStatusError } from "@keelson/api-machinery";
import type { Client, NewObject } from "@keelson/client";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { switchFlag } from "@keelson/operator/flags";
import { parseAllDocuments } from "yaml";
import { Job } from "../api/job.ts";
import { group, labels } from "../api/names.ts";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { TaskGroup } from "../api/taskgroup.ts";
import { isParent } from "../controllers/jobs/parent-decision.ts";
import { type PlannedTask, planJob } from "../rollout/plan-job.ts";
import { mergeUpdatePolicies } from "../rollout/update-policy.ts";
import { labelValue } from "../work/child-name.ts";
import { namespaceFlag } from "./flags.ts";
import { listRevisions } from "./rollout.ts";

const allFlag = switchFlag({ name: "all", description: "also list tasks that do not change" });

/** `keelson robots plan FILE`. */
export const planCommand: CommandDefinition = {
  name: "plan",
  description:
    "show which tasks the jobs of a manifest (- for standard input) would create, restart, move or stop, and why; change nothing",
  args: ["FILE"],
  flags: [allFlag, namespaceFlag, outputFlag],
  run: plan,
};

async function plan(context: CommandContext): Promise<number> {
  const { args, flags, stdout, stderr, signal } = context;
  const jobs = await readJobs(args[0] ?? "-", process.stdin, signal);
  if (typeof jobs === "string") {
    stderr.write(`${jobs}\n`);
    return 2;
  }
  const client = await context.client();
  try {
    const plans: Awaited<ReturnType<typeof planOf>>[] = [];
    for (const manifest of jobs) plans.push(await planOf(client, manifest, namespaceFlag.read(flags), signal));
    const describe = (): string =>
      plans.map(({ job, isNew, tasks }) => describePlan(job, isNew, tasks, allFlag.read(flags))).join("\n");
    const result = plans.map(({ job, tasks }) => ({ job: job.metadata.name, tasks }));
    stdout.write(formatResult(context, result, describe));
    return 0;
  } catch (error) {
    if (!isStatusError(error)) throw error;
    stderr.write(`${error.message}\n`);
    return 1;
  } finally {
    await client.close();
  }
}

/** The Jobs of a manifest, which `-` reads from `input`; or the problem. */
export async function readJobs(
  file: string,
  input: Readable,
  signal: AbortSignal,
): Promise<readonly NewObject<Job>[] | string> {
  const source = file === "-" ? "standard input" : file;
  let manifest: string;
  try {
    manifest = file === "-" ? await text(addAbortSignal(signal, input)) : await readFile(file, "utf8");
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof Error ? error.message : String(error);
  }
  const documents = parseAllDocuments(manifest, { merge: true });
  const problem = documents.flatMap(({ errors }) => errors)[0];
  if (problem !== undefined) return `${source}: ${problem.message}`;
  const objects = documents.map((document) => document.toJS() as Partial<NewObject<Job>> | null);
  // The server validates them.
  const jobs = objects.filter(
    (object): object is NewObject<Job> => object?.kind === Job.kind && object.apiVersion?.startsWith(`${group}/`) === true,
  );
  return jobs.length === 0 ? `${source} contains no Job of ${group}` : jobs;
}

async function planOf(client: Client, manifest: NewObject<Job>, defaultNamespace: string, signal: AbortSignal) {
  const namespace = manifest.metadata.namespace ?? defaultNamespace;
  const name = manifest.metadata.name ?? "";
  const live = await ignoreNotFound(client.get(Job, { namespace, name }, { signal }));
  // A dry run, so that the server applies defaults and validates. The whole spec is replaced, so that fields missing in the
  // file are removed, as with `kubectl apply`.
  const operations = [{ op: "replace" as const, path: "/spec", value: manifest.spec }];
  const job: DeepReadonly<Job> =
    live === undefined
      ? await client.create(Job, { ...manifest, metadata: { ...manifest.metadata, namespace } }, { dryRun: true, signal })
      : await client.patch(Job, { namespace, name }, { type: "json", operations }, { dryRun: true, signal });
  const [groups, allTasks, robots, revisions] = await Promise.all([
    client.list(TaskGroup, { namespace, labelSelector: `${labels.job}=${labelValue(name)}`, signal }),
    client.list(Task, { namespace, signal }),
    client.list(Robot, { namespace, signal }),
    live === undefined ? [] : listRevisions(live, client, signal),
  ]);
  const own = groups.items.filter(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => uid === live?.metadata.uid));
  const uids = new Set(own.map(({ metadata }) => metadata.uid));
  const tasks = allTasks.items.filter(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => uids.has(uid)));
  const observed = { job, live, revisions, groups: own, tasks, allTasks: allTasks.items, robots: robots.items };
  return { job, isNew: live === undefined, tasks: isParent(job) ? [] : planJob(observed) };
}

/** A plan as text. */
export function describePlan(
  job: DeepReadonly<Job>,
  isNew: boolean,
  tasks: readonly PlannedTask[],
  withUnchanged: boolean,
): string {
  const count = (action: PlannedTask["action"]): number => tasks.filter((task) => task.action === action).length;
  const preempted = tasks.flatMap(({ preempts = [] }) => preempts);
  const head = `Job ${job.metadata.name ?? ""}: ${isNew ? "new" : "exists"}; ${count("create")} to create, ${count("restart")} to restart, ${count("move")} to move, ${count("stop")} to stop, ${count("keep") + count("ignore")} unchanged${preempted.length === 0 ? "" : `; ${preempted.length} of lower priority to preempt`}\n`;
  if (isParent(job)) return `${head}It is a template for other Jobs and runs no tasks.\n`;
  const replaced = count("restart") + count("move");
  const pace = replaced === 0 ? "" : job.spec.taskGroups.map((template) => describePace(job, template)).join("");
  const shown = tasks.filter(({ action }) => withUnchanged || action !== "keep");
  if (shown.length === 0) return `${head}Nothing changes.\n`;
  const rows = shown.map(({ group: name, task, action, robot, why }) => [action, name, task, robot ?? "-", why]);
  return `${head}${pace}${renderTable([["ACTION", "GROUP", "TASK", "ROBOT", "WHY"], ...rows])}`;
}

function describePace(job: DeepReadonly<Job>, template: DeepReadonly<Job["spec"]["taskGroups"][number]>): string {
  const { maxParallel = 1, canary, autoRevert } = mergeUpdatePolicies([template.update, job.spec.update]);
  const canaries = canary === undefined || canary === 0 ? "" : `, after ${canary} ${canary === 1 ? "canary" : "canaries"}`;
  const failure = autoRevert === true ? "reverts" : "stops";
  return `Group ${template.name}: at most ${maxParallel} at the same time${canaries}; ${failure} if it fails.\n`;
}
