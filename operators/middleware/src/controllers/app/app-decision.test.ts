import type { DeepReadonly } from "@keelson/api-machinery";
import type { ConfigMapObject } from "@keelson/api-machinery/kinds";
import { expect, it } from "vitest";
import type { App, AppStatus } from "../../api/app.ts";
import { annotations } from "../../api/names.ts";
import { readPlugin } from "../../plugin/read-plugin.ts";
import { redisPlugin } from "../../plugin/redis-plugin.ts";
import { defaultControllerSettings } from "../../settings/controller-settings.ts";
import { decideApp } from "./app-decision.ts";

const now = Date.UTC(2026, 0, 1);
const time = new Date(now).toISOString();
const { data, name, version } = redisPlugin;
const configMap: ConfigMapObject = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${name}-v${version}` }, data };
const plugin = readPlugin(configMap);

function appOf(status: AppStatus, more: Record<string, string> = {}): DeepReadonly<App> {
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "App",
    metadata: { name: "cache", namespace: "default", generation: 1, annotations: more },
    spec: { plugin: { name, version }, runtime: { name: "redis", version: "7.0" } },
    status,
  } as DeepReadonly<App>;
}

/** The status of the decision. */
function decide(app: DeepReadonly<App>, settings = defaultControllerSettings.app): AppStatus {
  const [effect] = decideApp({
    app,
    components: new Map(),
    groups: [],
    claims: [],
    lastBackups: new Map(),
    plugin,
    ...{ metadata: undefined, certificateProblems: [] },
    backupSchedule: undefined,
    settings,
    now,
  }).effects;
  if (effect?.kind !== "status") throw new Error("the decision writes no status");
  return effect.status as AppStatus;
}

const over: AppStatus = {
  observedGeneration: 1,
  acceptedGeneration: 1,
  plan: { id: "plan-1-01", generation: 1, startedAt: time, finishedAt: time, outcome: "Succeeded", tasks: [] },
};

it("plans a deleted Component again and continues the numbering of tasks", () => {
  const first = decide(appOf({})).plan;
  expect(first).toMatchObject({ id: "plan-1-01", tasks: [{ taskId: "task-1-01", scenario: "provision" }] });
  if (first === undefined) return;
  const tasks = first.tasks.map((task) => ({ ...task, status: "done" as const }));
  const again = decide(appOf({ ...over, plan: { ...first, tasks, finishedAt: time, outcome: "Succeeded" } })).plan;
  expect(again).toMatchObject({ id: "plan-1-02", tasks: [{ taskId: "task-1-02", scenario: "provision" }] });
});

it("processes a control annotation once, and again if it is set again after its removal", () => {
  const words = { [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-1-09"] }) };
  const obeyed = decide(appOf(over, words));
  expect(obeyed.control?.result).toContain("task not found");
  const kept = obeyed.control?.cancel;
  expect(kept).toBeDefined();
  const forgot = decide(appOf(obeyed));
  expect(forgot.control?.cancel).toBeUndefined();
  expect(decide(appOf(forgot, words)).control?.cancel).toBe(kept);
});

it("gives tasks the operator's timeout and retries, unless the App sets them", () => {
  const settings = { ...defaultControllerSettings.app, maxRetries: 7, taskTimeout: "10m" };
  expect(decide(appOf({}), settings).plan?.tasks).toMatchObject([{ maxRetries: 7, timeout: "10m" }]);
  const app = appOf({});
  const own = { ...app, spec: { ...app.spec, changePolicy: { maxRetries: 1, timeout: "5s" } } };
  expect(decide(own, settings).plan?.tasks).toMatchObject([{ maxRetries: 1, timeout: "5s" }]);
});

it("refuses requests of users that the operator's settings disable", () => {
  const settings = { ...defaultControllerSettings.app, isManualRetryEnabled: false, isManualCancelEnabled: false };
  const ids = ["task-1-01"];
  const words = {
    [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ids }),
    [annotations.retryControl]: JSON.stringify({ retryTaskIds: ids }),
  };
  const { results } = JSON.parse(decide(appOf(over, words), settings).control?.result ?? "{}") as { results: object[] };
  expect(results).toMatchObject([
    { action: "cancel", result: "refused: enableManualCancel is false" },
    { action: "retry", result: "refused: enableManualRetry is false" },
  ]);
});
