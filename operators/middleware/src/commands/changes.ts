import { ConfigMap, type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { CommandContext, CommandDefinition, FlagDefinition } from "@keelson/controller";
import { App, type ChangeTask } from "../api/app.ts";
import { Component } from "../api/component.ts";
import { annotations, labels, pluginNamespace } from "../api/names.ts";
import { checkApp, planChanges } from "../controllers/app-plan.ts";
import { taskTypes } from "../controllers/desired-components.ts";
import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { pluginConfigMapName, PluginError, readPlugin } from "../plugin/read-plugin.ts";
import type { Plugin } from "../plugin/plugin.ts";

const namespaceFlag: FlagDefinition = {
  name: "namespace",
  value: "NAME",
  description: "namespace of the App",
  default: "default",
};

/** `keelson app plan | tasks | cancel | retry`. */
export const changeCommands: readonly CommandDefinition[] = [
  {
    name: "plan",
    description: "show the tasks that a change of an App would lead to, and what they restart",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      { name: "file", value: "FILE", description: "the changed App; default: what is stored, against what was applied" },
    ],
    run: (context) => withErrors(context, plan),
  },
  {
    name: "tasks",
    description: "show the tasks of an App's plan and how far they are",
    args: ["NAME"],
    flags: [namespaceFlag],
    run: (context) => withErrors(context, tasks),
  },
  {
    name: "cancel",
    description: "cancel tasks of an App's plan; without ids, those that are not over",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag],
    run: (context) => withErrors(context, (each) => control(each, "cancel")),
  },
  {
    name: "retry",
    description: "try tasks of an App's plan again; without ids, those that failed, were skipped or cancelled",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag, { name: "reset-dependencies", description: "also those that come before them" }],
    run: (context) => withErrors(context, (each) => control(each, "retry")),
  },
];

async function withErrors(context: CommandContext, act: (context: CommandContext) => Promise<number>): Promise<number> {
  try {
    return await act(context);
  } catch (error) {
    if (!isNotFound(error) && !(error instanceof PluginError)) throw error;
    context.stderr.write(`${(error as Error).message}\n`);
    return 1;
  }
}

function keyOf({ args, flags }: CommandContext): { namespace: string; name: string } {
  return { namespace: typeof flags.namespace === "string" ? flags.namespace : "default", name: args[0] ?? "" };
}

async function plan(context: CommandContext): Promise<number> {
  const { flags, stdout, stderr } = context;
  const client = await context.client();
  const key = keyOf(context);
  const stored = await client.get(App, key);
  let app: DeepReadonly<App> = stored;
  if (typeof flags.file === "string") {
    const changed = parse(await readFile(flags.file, "utf8")) as App;
    if (changed?.kind !== "App" || changed.metadata?.name !== key.name) {
      stderr.write(`--file: has no App ${key.name}\n`);
      return 2;
    }
    // The server fills in defaults and refuses what the schema does not allow.
    app = (await client.apply(App, changed as never, {
      dryRun: true,
      force: true,
      fieldManager: "keelson-plan",
    })) as DeepReadonly<App>;
  }
  const plugin = await pluginOf(client, app);
  const components = await client.list(Component, { namespace: key.namespace, labelSelector: `${labels.app}=${key.name}` });
  const applied = new Map(
    components.items.map((component) => [component.metadata.labels?.[labels.component] ?? "", component.spec]),
  );
  const problems = checkApp(app, plugin, applied);
  for (const { field, message } of problems) stderr.write(`${field}: ${message}\n`);
  if (problems.length > 0) return 1;
  const planned = planChanges(app, plugin, applied, { generation: app.metadata.generation ?? 0, after: 0 });
  if (planned.length === 0) stdout.write("nothing to do: what is wanted is what was applied\n");
  for (const task of planned)
    stdout.write(
      `${task.stage}. ${task.type} (P${taskTypes.length - 1 - task.priority / 10 < 0 ? 0 : task.priority / 10}): ${task.description}; ${predict(task, plugin)}\n`,
    );
  return 0;
}

/** What a task does to Pods, as far as the plugin knows beforehand. */
function predict(task: ChangeTask, plugin: Plugin): string {
  if (task.scenario === "provision") return "starts Pods";
  if (task.scenario === "stop") return "stops all Pods, the primary last";
  if (task.type === "version_upgrade") return "restarts every Pod, replicas first, with one switchover; no way back after it";
  if (task.type === "storage_volume") return "restarts nothing; cannot be taken back";
  if (task.type === "middleware_config") {
    const before = (task.baseSpec?.config ?? {}) as Record<string, unknown>;
    const after = (task.desiredSpec.config ?? {}) as Record<string, unknown>;
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => before[name] !== after[name]);
    const cold = names.filter((name) => plugin.parameters[name] === "cold" || after[name] === undefined);
    return cold.length > 0
      ? `restarts every Pod for ${cold.join(", ")}, replicas first, with one switchover`
      : "restarts nothing, unless the program says so";
  }
  return "starts or takes away Pods; changed resources restart them one by one";
}

async function pluginOf(client: Client, app: DeepReadonly<App>): Promise<Plugin> {
  const name = pluginConfigMapName(app.spec.plugin.name, app.spec.plugin.version);
  try {
    return readPlugin(await client.get(ConfigMap, { namespace: app.metadata.namespace, name }));
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return readPlugin(await client.get(ConfigMap, { namespace: pluginNamespace, name }));
  }
}

async function tasks(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { status } = await client.get(App, keyOf(context));
  const { stdout } = context;
  if (status?.plan === undefined) {
    stdout.write(`no plan yet: ${status?.message ?? "the App was not looked at so far"}\n`);
    return 0;
  }
  const rows = status.plan.tasks.map((task) => [
    task.taskId,
    task.status,
    `P${task.priority / 10}`,
    task.targetComponent,
    task.description,
    task.error ?? task.reason ?? "",
  ]);
  const table = [["TASK", "STATUS", "PRIO", "COMPONENT", "CHANGE", "NOTE"], ...rows];
  const widths = (table[0] ?? []).map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  for (const row of table)
    stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd()}\n`,
    );
  stdout.write(`${status.phase}: ${status.message ?? ""}\n`);
  if (status.pendingGeneration !== undefined)
    stdout.write("a newer change waits for this plan to end; cancel its tasks to have it at once\n");
  return 0;
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
    context.stdout.write(`nothing to ${action}\n`);
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
  const result = await resultOf(client, { namespace, name }, key, context.signal);
  context.stdout.write(result);
  return result.includes("refused") ? 1 : 0;
}

/** Waits by watch until the controller has taken the request, and answers what came of it. */
async function resultOf(
  client: Client,
  { namespace, name }: { namespace: string; name: string },
  key: string,
  signal: AbortSignal,
): Promise<string> {
  const list = await client.list(App, { namespace, fieldSelector: `metadata.name=${name}`, signal });
  const read = (app: DeepReadonly<App> | undefined): string | undefined => {
    if (app === undefined || app.metadata.annotations?.[key] !== undefined) return undefined;
    const { results = [] } = JSON.parse(app.metadata.annotations?.[annotations.controlResult] ?? "{}") as {
      results?: { taskId: string; result: string }[];
    };
    return results.map((each) => `${each.taskId}: ${each.result}\n`).join("");
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
      if (event.type === "DELETED") return "the App is gone\n";
    }
  } finally {
    watch.close();
  }
  return "the watch ended before the controller answered\n";
}
