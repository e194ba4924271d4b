import { readFile } from "node:fs/promises";
import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandContext, formatResult, renderTable } from "@keelson/operator";
import { parse } from "yaml";
import { App } from "../../api/app.ts";
import { Component } from "../../api/component.ts";
import { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import { certificateProblems } from "../../controllers/certificates/certificate-problems.ts";
import { planChanges, warningsOf } from "../../controllers/plan/plan-changes.ts";
import { validateApp } from "../../controllers/plan/validate-app.ts";
import { predictTasks } from "../../controllers/plan/predict-tasks.ts";
import { suppressTasks } from "../../controllers/plan/suppress-tasks.ts";
import { keyOf } from "../app-flags.ts";
import { pluginOf } from "../find-plugin.ts";

/** `keelson app plan`: shows the tasks of a change, planned by the same function as in the controller. */
export async function showPlan(context: CommandContext): Promise<number> {
  const { flags, stdout, stderr } = context;
  const client = await context.client();
  const key = keyOf(context);
  let app: DeepReadonly<App> = await client.get(App, key);
  if (typeof flags.file === "string") {
    const changed = parse(await readFile(flags.file, "utf8")) as App;
    if (changed?.kind !== "App" || changed.metadata?.name !== key.name) {
      stderr.write(`--file: must contain App ${key.name}\n`);
      return 2;
    }
    // A dry run, so that the server applies defaults and validates the schema.
    // The whole spec is replaced, so that fields missing in the file are removed as with `kubectl apply`.
    const operations = [{ op: "replace" as const, path: "/spec", value: changed.spec ?? {} }];
    app = await client.patch(App, key, { type: "json", operations }, { dryRun: true });
  }
  const plugin = await pluginOf(client, app);
  const components = await client.list(Component, { namespace: key.namespace, labelSelector: `${labels.app}=${key.name}` });
  const applied = new Map(
    components.items.map((component) => [component.metadata.labels?.[labels.component] ?? "", component.spec]),
  );
  const groups = (await client.list(Group, { namespace: key.namespace, labelSelector: `${labels.app}=${key.name}` })).items;
  const problems = [
    ...validateApp(app, plugin, applied, groups),
    ...(await certificateProblems(app, components.items, client)),
  ];
  for (const { field, message } of problems) stderr.write(`${field}: ${message}\n`);
  if (problems.length > 0) return 1;
  for (const warning of warningsOf(app, plugin)) stderr.write(`warning: ${warning}\n`);
  const changes = planChanges(app, plugin, applied, { generation: app.metadata.generation ?? 0, after: 0 });
  const planned = suppressTasks(changes, app.status?.plan, undefined);
  const predictions = predictTasks(planned, plugin, groups);
  const tasks = planned.map((task, index) => {
    const { effect = "", disruptions } = predictions[index] ?? {};
    return { ...task, effect, ...(disruptions === undefined ? {} : { predicted: disruptions }) };
  });
  const text = (): string =>
    tasks.length === 0
      ? "nothing to do: the spec has already been applied\n"
      : renderTable([
          ["STAGE", "TYPE", "PRIO", "COMPONENT", "CHANGE", "EFFECT"],
          ...tasks.map((task) => [
            String(task.stage),
            task.type,
            `P${task.priority / 10}`,
            task.targetComponent,
            task.description,
            task.effect,
          ]),
        ]);
  stdout.write(formatResult(context, tasks, text));
  return 0;
}
