import { type DeepReadonly, isMissingKind, isNotFound } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag } from "@keelson/operator";
import { App } from "../api/app.ts";
import { annotations } from "../api/names.ts";
import { PluginError } from "../plugin/read-plugin.ts";
import { keyOf, namespaceFlag } from "./app-flags.ts";
import { showPlan } from "./plan.ts";
import { showTasks } from "./tasks.ts";

/** `keelson app plan | tasks | cancel | retry`. */
export const changeCommands: readonly CommandDefinition[] = [
  {
    name: "plan",
    description: "show the tasks that a change of an App would lead to, and what they restart",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "file", value: "FILE", description: "the changed App; default: what is stored, against what was applied" },
    ],
    run: (context) => withErrors(context, showPlan),
  },
  {
    name: "tasks",
    description: "show the tasks of an App's plan and how far they are",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "watch", short: "w", description: "go on until the plan has ended; its outcome is the exit status" },
    ],
    run: (context) => withErrors(context, showTasks),
  },
  {
    name: "cancel",
    description: "cancel tasks of an App's plan; without ids, those that are not over",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, (each) => control(each, "cancel")),
  },
  {
    name: "retry",
    description: "try tasks of an App's plan again; without ids, those that failed, were skipped or cancelled",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag, outputFlag, { name: "reset-dependencies", description: "also those that come before them" }],
    run: (context) => withErrors(context, (each) => control(each, "retry")),
  },
];

async function withErrors(context: CommandContext, act: (context: CommandContext) => Promise<number>): Promise<number> {
  try {
    return await act(context);
  } catch (error) {
    if (!(isNotFound(error) && !isMissingKind(error)) && !(error instanceof PluginError)) throw error;
    context.stderr.write(`${error.message}\n`);
    return 1;
  }
}

async function control(context: CommandContext, action: "cancel" | "retry"): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const app = await client.get(App, { namespace, name });
  const wanted = action === "cancel" ? ["pending", "in_progress", "retry_pending"] : ["failed", "skipped", "cancelled"];
  const given = context.args.slice(1);
  const ids =
    given.length > 0
      ? given
      : (app.status?.plan?.tasks ?? []).filter((task) => wanted.includes(task.status)).map((task) => task.taskId);
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
    context.stderr.write(`${name} went away before the controller answered\n`);
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

/** Waits by watch until the controller has taken the request, and answers what came of it; undefined where the App went away. */
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
