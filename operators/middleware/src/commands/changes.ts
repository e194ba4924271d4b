import type { DeepReadonly } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag } from "@keelson/operator";
import { App } from "../api/app.ts";
import { annotations } from "../api/names.ts";
import { keyOf, namespaceFlag } from "./app-flags.ts";
import { showPlan } from "./plan.ts";
import { requestRebuild, requestRestart } from "./restart.ts";
import { requestSwitchover } from "./switchover.ts";
import { showTasks } from "./tasks.ts";
import { withErrors } from "./with-errors.ts";

/** `keelson app plan | tasks | cancel | retry | switchover | restart | rebuild`. */
export const changeCommands: readonly CommandDefinition[] = [
  {
    name: "plan",
    description: "show the tasks that a change to an App would execute, and what they restart",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "file", value: "FILE", description: "manifest of the changed App; default: the stored spec" },
    ],
    run: (context) => withErrors(context, showPlan),
  },
  {
    name: "tasks",
    description: "show the tasks of an App's plan and their status",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "watch", short: "w", description: "watch until the plan has finished; the exit code is its outcome" },
    ],
    run: (context) => withErrors(context, showTasks),
  },
  {
    name: "cancel",
    description: "cancel tasks of an App's plan; without ids, all unfinished tasks",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, (each) => control(each, "cancel")),
  },
  {
    name: "retry",
    description: "retry tasks of an App's plan; without ids, all failed, skipped and cancelled tasks",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag, outputFlag, { name: "reset-dependencies", description: "also retry the tasks that they depend on" }],
    run: (context) => withErrors(context, (each) => control(each, "retry")),
  },
  {
    name: "switchover",
    description: "hand the primary role of an App to a replica without losing data, and wait for completion",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "to", value: "POD", description: "Pod that becomes the primary; default: a replica in sync" },
    ],
    run: (context) => withErrors(context, requestSwitchover),
  },
  {
    name: "restart",
    description: "restart the Pods of an App one by one, the primary last after a switchover, and wait for completion",
    args: ["NAME"],
    flags: [namespaceFlag, outputFlag, { name: "pod", value: "POD", description: "restart only this Pod" }],
    run: (context) => withErrors(context, requestRestart),
  },
  {
    name: "rebuild",
    description: "discard the data of a replica, copy that of the primary, and wait for completion",
    args: ["NAME", "POD"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, requestRebuild),
  },
];

async function control(context: CommandContext, action: "cancel" | "retry"): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const app = await client.get(App, { namespace, name });
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
  const request =
    action === "cancel"
      ? { cancelTaskIds: ids }
      : { retryTaskIds: ids, resetDependencies: context.flags["reset-dependencies"] === true };
  const key = action === "cancel" ? annotations.cancelControl : annotations.retryControl;
  await client.patch(
    App,
    { namespace, name },
    { type: "merge", body: { metadata: { annotations: { [key]: JSON.stringify(request) } } } },
  );
  const results = await resultOf(client, { namespace, name }, key, context.signal);
  if (results === undefined) {
    context.stderr.write(`App ${name} was deleted before the controller responded\n`);
    return 1;
  }
  context.stdout.write(
    formatResult(context, results, () => results.map(({ taskId, result }) => `${taskId}: ${result}\n`).join("")),
  );
  return results.some(({ result }) => result.startsWith("refused")) ? 1 : 0;
}

interface TaskResult {
  readonly taskId: string;
  readonly result: string;
}

/** Watches until the controller has processed the request. Resolves to the results; undefined if the App was deleted. */
async function resultOf(
  client: Client,
  { namespace, name }: { namespace: string; name: string },
  key: string,
  signal: AbortSignal,
): Promise<readonly TaskResult[] | undefined> {
  const list = await client.list(App, { namespace, fieldSelector: `metadata.name=${name}`, signal });
  const read = (app: DeepReadonly<App> | undefined): readonly TaskResult[] | undefined => {
    if (app === undefined || app.metadata.annotations?.[key] !== undefined) return undefined;
    const { results = [] } = JSON.parse(app.metadata.annotations?.[annotations.controlResult] ?? "{}") as {
      results?: TaskResult[];
    };
    return results;
  };
  const now = read(list.items[0]);
  if (now !== undefined) return now;
  const watch = await client.watch(App, {
    namespace,
    fieldSelector: `metadata.name=${name}`,
    resourceVersion: list.metadata.resourceVersion ?? "",
    signal,
  });
  try {
    for await (const event of watch) {
      const result = event.type === "MODIFIED" ? read(event.object) : undefined;
      if (result !== undefined) return result;
      if (event.type === "DELETED") return undefined;
    }
  } finally {
    watch.close();
  }
  return undefined;
}
