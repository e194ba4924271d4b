import type { DeepReadonly } from "@keelson/api-machinery";
import { awaitObject, type CommandContext, formatResult, renderTable } from "@keelson/operator";
import { App } from "../../api/app.ts";
import { describeReport } from "../../controllers/plan/plan-report.ts";
import { keyOf } from "../app-flags.ts";

/** `keelson app tasks`: shows the plan, and with `--watch` every change until it finishes. */
export async function showTasks(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const { stdout, signal } = context;
  const print = ({ status }: DeepReadonly<App>): string => formatResult(context, status?.plan ?? null, () => describe(status));
  const app = await client.get(App, { namespace, name });
  let last = print(app);
  stdout.write(last);
  if (context.flags.watch !== true) return 0;
  if (isFinished(app)) return exitStatus(app);
  const read = (each: DeepReadonly<App>): number | undefined => {
    const next = print(each);
    if (next !== last) stdout.write(context.flags.output === "json" ? next : `\n${next}`);
    last = next;
    return isFinished(each) ? exitStatus(each) : undefined;
  };
  const status = await awaitObject(client, App, { namespace, name }, read, signal);
  if (status === undefined) context.stderr.write(`App ${name} was deleted\n`);
  return status ?? 1;
}

/** Whether no plan is active and no change is pending. */
const isFinished = ({ metadata, status }: DeepReadonly<App>): boolean =>
  status?.observedGeneration === metadata.generation &&
  status?.pendingGeneration === undefined &&
  (status?.plan === undefined || status.plan.finishedAt !== undefined);

const exitStatus = ({ status }: DeepReadonly<App>): number => (status?.plan?.outcome === "Succeeded" ? 0 : 1);

function describe(status: DeepReadonly<App>["status"]): string {
  if (status?.plan === undefined) return `no plan yet: ${status?.message ?? "the controller has not observed the App"}\n`;
  const rows = status.plan.tasks.map((task) => [
    task.taskId,
    task.status,
    `P${task.priority / 10}`,
    task.targetComponent,
    task.description,
    task.error ?? task.reason ?? "",
  ]);
  const waiting =
    status.pendingGeneration === undefined
      ? ""
      : `a newer change is waiting for this plan to finish; cancel the tasks to apply it immediately\n${(status.pendingChanges ?? []).map((change) => `  ${change}\n`).join("")}`;
  const report = status.plan.report === undefined ? "" : `${status.plan.id}: ${describeReport(status.plan.report)}\n`;
  const table = renderTable([["TASK", "STATUS", "PRIO", "COMPONENT", "CHANGE", "NOTE"], ...rows]);
  return `${table}${report}${status.phase}: ${status.message ?? ""}\n${waiting}`;
}
