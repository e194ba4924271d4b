import { type DeepReadonly, isNamespaceTerminating } from "@keelson/api-machinery";
import { ConfigMap, PersistentVolumeClaim, Secret } from "@keelson/api-machinery/kinds";
import {
  type Cache,
  type ControllerDefinition,
  defineController,
  metadataOf,
  type ReconcileContext,
  readOf,
  removeFinalizer,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import type { MiddlewareServices } from "../services.ts";
import { App, type AppStatus } from "../../api/app.ts";
import { Backup } from "../../api/backup.ts";
import { BackupSchedule } from "../../api/backup-schedule.ts";
import { Component } from "../../api/component.ts";
import { Group } from "../../api/group.ts";
import { appFinalizer, labels, metadataName } from "../../api/names.ts";
import { isPlugin, pluginConfigMapName } from "../../plugin/read-plugin.ts";
import { affectsCertificates, certificateProblems } from "../certificates/certificate-problems.ts";
import { decideApp } from "./app-decision.ts";
import { isLastBackup, lastBackupsOf } from "./last-backup.ts";
import { describeReport } from "../plan/plan-report.ts";
import { performEffects } from "../perform-effects.ts";
import { AgentCallError } from "../agent-call-error.ts";

const fieldManager = "middleware-app-controller";

/** Creates the App controller, which turns spec changes into plans and executes their tasks. */
export function createAppController(services: MiddlewareServices): ControllerDefinition {
  return defineController({
    name: "middleware-app",
    for: App,
    owns: [Component, BackupSchedule],
    watches: [
      // A plugin that is created or changed affects every App that uses it.
      watchOf(ConfigMap, (configMap, { cache }) =>
        isPlugin(configMap)
          ? cache
              .list(App)
              .filter((app) => configMap.metadata.name === pluginConfigMapName(app.spec.plugin.name, app.spec.plugin.version))
              .map((app) => ({ namespace: app.metadata.namespace, name: app.metadata.name ?? "" }))
          : waitingFor(configMap, cache),
      ),
      // Keys stay out of the cache.
      watchOf(metadataOf(Secret), (secret, { cache }) => waitingFor(secret, cache)),
      // The Backups that precede the deletion of an App. One of another App may have the name of one.
      watchOf(Backup, (backup, { cache }) =>
        cache
          .list(App, { namespace: backup.metadata.namespace })
          .filter((app) => app.metadata.deletionTimestamp !== undefined && isLastBackup(app, backup))
          .map((app) => ({ namespace: app.metadata.namespace, name: app.metadata.name ?? "" })),
      ),
    ],
    reads: [readOf(Component), readOf(Group), readOf(PersistentVolumeClaim)],
    maxConcurrentReconciles: services.settings.app.workers,
    reconcile: (request, context) => reconcile(request, context, services),
  });
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  { agents, plugins, generateSecret, settings }: MiddlewareServices,
): Promise<Result | undefined> {
  const { cache, client, clock, signal } = context;
  const app = cache.get(App, request);
  if (app === undefined) return undefined;
  const { namespace, name } = request;
  const components = cache
    .list(Component, { namespace, labelSelector: `${labels.app}=${name}` })
    .filter((component) => component.metadata.ownerReferences?.some((owner) => owner.uid === app.metadata.uid));
  const claims = cache.list(PersistentVolumeClaim, { namespace, labelSelector: `${labels.app}=${name},${labels.group}` });
  const groups = cache.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
  const decision = decideApp({
    app,
    components: new Map(components.map((component) => [component.metadata.labels?.[labels.component] ?? "", component])),
    claims,
    lastBackups: findLastBackups(app, groups, cache),
    groups,
    certificateProblems: isAccepted(app) ? [] : await certificateProblems(app, components, client, signal),
    plugin: plugins.find(cache, namespace, app.spec.plugin),
    metadata: cache.get(ConfigMap, { namespace, name: metadataName(name) }),
    backupSchedule: cache.get(BackupSchedule, { namespace, name }),
    settings: settings.app,
    now: clock.now(),
  });
  try {
    await performEffects(decision.effects, {
      client,
      fieldManager,
      signal,
      agents,
      generateSecret,
      agentAccess: () => Promise.reject(new AgentCallError("NoToken", "the App controller does not call agents")),
    });
  } catch (error) {
    // A namespace that is being deleted accepts no Backup, and deletes everything else.
    if (app.metadata.deletionTimestamp === undefined || !isNamespaceTerminating(error)) throw error;
    await removeFinalizer(client, App, app, appFinalizer);
    return undefined;
  }
  recordEvents(app, decision.effects, context);
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

/** Whether the App's spec needs no more checks. */
function isAccepted({ metadata, status }: DeepReadonly<App>): boolean {
  return metadata.deletionTimestamp !== undefined || status?.acceptedGeneration === metadata.generation;
}

/** Apps whose spec is not accepted because of certificates that may have changed. */
const waitingFor = (
  { metadata: { name, namespace } }: { readonly metadata: DeepReadonly<App>["metadata"] },
  cache: Cache,
): readonly Request[] =>
  cache
    .list(App, { namespace })
    .filter((app) => !isAccepted(app) && affectsCertificates(app, name))
    .map((app) => ({ namespace, name: app.metadata.name ?? "" }));

/** The Backups that precede the deletion of an App and exist, by name. */
function findLastBackups(
  app: DeepReadonly<App>,
  groups: readonly DeepReadonly<Group>[],
  cache: Cache,
): ReadonlyMap<string, DeepReadonly<Backup>> {
  const { namespace, deletionTimestamp } = app.metadata;
  if (deletionTimestamp === undefined) return new Map();
  return new Map(
    lastBackupsOf(app, groups).flatMap(({ backup: { metadata } }) => {
      const { name = "" } = metadata;
      const found = cache.get(Backup, { namespace, name });
      return found === undefined ? [] : [[name, found] as const];
    }),
  );
}

/** Records a warning when an App with the policy Snapshot is deleted without its last Backup. */
function recordMissingBackup(app: DeepReadonly<App>, status: AppStatus, { events }: ReconcileContext): void {
  const { stopDeadlineAt, backupCompleted } = status.deletion ?? {};
  const isStopping = stopDeadlineAt !== undefined && app.status?.deletion?.stopDeadlineAt === undefined;
  if (!isStopping || app.spec.deletionPolicy !== "Snapshot" || backupCompleted === true) return;
  const note = "no last Backup was taken because no running group has a primary; the volumes are kept";
  events.event(app, { type: "Warning", reason: "VolumesKept", note });
}

/** Records events for tasks that started or finished. */
function recordEvents(
  app: Parameters<typeof decideApp>[0]["app"],
  effects: ReturnType<typeof decideApp>["effects"],
  context: ReconcileContext,
): void {
  const written = effects.find((effect) => effect.kind === "status");
  if (written === undefined) return;
  const status = written.status as AppStatus;
  recordMissingBackup(app, status, context);
  const { events } = context;
  const { plan, pausedAt } = status;
  if ((pausedAt === undefined) !== (app.status?.pausedAt === undefined)) {
    const [reason, note] = pausedAt === undefined ? ["Resumed", "changes are resumed"] : ["Paused", "changes are paused"];
    events.event(app, { type: "Normal", reason, note });
  }
  if (plan?.report !== undefined && app.status?.plan?.report === undefined) {
    const isExpected = plan.report.asPredicted !== false;
    const note = `${plan.id} ${plan.outcome ?? ""}: ${describeReport(plan.report)}`;
    events.event(app, { type: isExpected ? "Normal" : "Warning", reason: "PlanFinished", note });
  }
  for (const task of plan?.tasks ?? []) {
    const before = app.status?.plan?.tasks.find((each) => each.taskId === task.taskId)?.status;
    if (before === task.status) continue;
    if (task.status === "in_progress")
      events.event(app, { type: "Normal", reason: "TaskStarted", note: `${task.taskId}: ${task.description}` });
    if (task.status === "done")
      events.event(app, { type: "Normal", reason: "TaskDone", note: `${task.taskId}: ${task.description}` });
    if (task.status === "failed")
      events.event(app, { type: "Warning", reason: "TaskFailed", note: `${task.taskId}: ${task.error ?? ""}` });
    if (task.status === "cancelled")
      events.event(app, { type: "Normal", reason: "TaskCancelled", note: `${task.taskId}: ${task.description}` });
  }
}
