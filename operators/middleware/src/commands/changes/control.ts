import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandContext, formatResult } from "@keelson/operator";
import { App } from "../../api/app.ts";
import { annotations } from "../../api/names.ts";
import { isAwaitingApproval } from "../../controllers/plan/advance-plan.ts";
import { keyOf } from "../app-flags.ts";
import { awaitApp } from "../await-app.ts";

interface ControlResult {
  readonly taskId: string;
  readonly result: string;
}

/** `keelson app cancel | retry`: changes tasks and waits for the controller's results. */
export async function controlTasks(context: CommandContext, action: "cancel" | "retry"): Promise<number> {
  const client = await context.client();
  const app = await client.get(App, keyOf(context));
  const states = action === "cancel" ? ["pending", "in_progress", "retry_pending"] : ["failed", "skipped", "cancelled"];
  const requested = context.args.slice(1);
  const ids =
    requested.length > 0
      ? requested
      : (app.status?.plan?.tasks ?? []).filter((task) => states.includes(task.status)).map((task) => task.taskId);
  if (ids.length === 0) {
    context.stdout.write(formatResult(context, [], () => `nothing to ${action}\n`));
    return 0;
  }
  return action === "cancel"
    ? request(context, annotations.cancelControl, JSON.stringify({ cancelTaskIds: ids }))
    : request(
        context,
        annotations.retryControl,
        JSON.stringify({ retryTaskIds: ids, resetDependencies: context.flags["reset-dependencies"] === true }),
      );
}

/** `keelson app approve`: starts a plan that waits for approval. */
export async function approvePlan(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { status } = await client.get(App, keyOf(context));
  const [, plan = isAwaitingApproval(status?.plan) ? status?.plan?.id : undefined] = context.args;
  if (plan === undefined) {
    context.stdout.write(formatResult(context, [], () => "nothing to approve\n"));
    return 0;
  }
  return request(context, annotations.approve, plan);
}

/** `keelson app pause | resume`: holds changes, or continues them, and waits for the controller. */
export async function holdChanges(context: CommandContext, isPaused: boolean): Promise<number> {
  const client = await context.client();
  const key = keyOf(context);
  const body = { metadata: { annotations: { [annotations.paused]: isPaused ? "true" : null } } };
  await client.patch(App, key, { type: "merge", body });
  const held = await awaitApp(
    client,
    key,
    (app) => ((app.status?.pausedAt !== undefined) === isPaused ? app : undefined),
    context.signal,
  );
  if ("problem" in held) return reportProblem(context, held.problem);
  const result = { app: key.name, paused: isPaused, running: runningTasks(held.value) };
  context.stdout.write(formatResult(context, result, () => describeHold(isPaused, result.running)));
  return 0;
}

const runningTasks = ({ status }: DeepReadonly<App>): readonly string[] =>
  (status?.plan?.tasks ?? []).filter((task) => task.status === "in_progress").map((task) => task.taskId);

function describeHold(isPaused: boolean, running: readonly string[]): string {
  if (!isPaused) return "resumed\n";
  return running.length === 0 ? "paused\n" : `paused; ${running.join(", ")} stops before its next disruption\n`;
}

/** Sets a control annotation and prints the results when the controller has processed it. */
async function request(context: CommandContext, annotation: string, value: string): Promise<number> {
  const client = await context.client();
  const key = keyOf(context);
  await client.patch(App, key, { type: "merge", body: { metadata: { annotations: { [annotation]: value } } } });
  const read = (app: DeepReadonly<App>): readonly ControlResult[] | undefined => {
    if (app.metadata.annotations?.[annotation] !== undefined) return undefined;
    const { results = [] } = JSON.parse(app.metadata.annotations?.[annotations.controlResult] ?? "{}") as {
      results?: ControlResult[];
    };
    return results;
  };
  const awaited = await awaitApp(client, key, read, context.signal);
  if ("problem" in awaited) return reportProblem(context, awaited.problem);
  const results = awaited.value;
  context.stdout.write(
    formatResult(context, results, () => results.map(({ taskId, result }) => `${taskId}: ${result}\n`).join("")),
  );
  return results.some(({ result }) => result.startsWith("refused")) ? 1 : 0;
}

function reportProblem({ stderr }: CommandContext, problem: string): number {
  stderr.write(`${problem}\n`);
  return 1;
}
