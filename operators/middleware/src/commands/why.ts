import { type CommandContext, formatResult, renderTable } from "@keelson/operator";
import { App } from "../api/app.ts";
import { Component } from "../api/component.ts";
import { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import { keyOf } from "./app-flags.ts";
import { explainApp } from "./explain-app.ts";

/** `keelson app why`: explains what an App or one of its tasks waits for. */
export async function explain(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const app = await client.get(App, { namespace, name });
  const selection = { namespace, labelSelector: `${labels.app}=${name}` };
  const [components, groups] = await Promise.all([client.list(Component, selection), client.list(Group, selection)]);
  const all = explainApp(app, components.items, groups.items);
  const [, task] = context.args;
  if (task !== undefined && !app.status?.plan?.tasks.some(({ taskId }) => taskId === task)) {
    const ids = app.status?.plan?.tasks.map(({ taskId }) => taskId).join(", ") ?? "";
    context.stderr.write(`TASK: ${JSON.stringify(task)} must be one of the tasks of the plan: ${ids || "none"}\n`);
    return 2;
  }
  const relevant = task === undefined ? all : all.filter(({ subject }) => subject === task || !subject.startsWith("task-"));
  const text = (): string =>
    relevant.length === 0
      ? `${name} waits for nothing: ${app.status?.message ?? ""}\n`
      : renderTable([
          ["SUBJECT", "REASON", "MESSAGE", "NEXT"],
          ...relevant.map(({ subject, reason, message, next }) => [subject, reason, message, next ?? ""]),
        ]);
  context.stdout.write(formatResult(context, { app: name, phase: app.status?.phase, waitsFor: relevant }, text));
  return 0;
}
