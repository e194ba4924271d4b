import { type DeepReadonly, draft, hasFinalizer, jsonEquals } from "@keelson/api-machinery";
import { PersistentVolumeClaim } from "@keelson/api-machinery/kinds";
import { formatTime, parseDuration, parseTime } from "@keelson/api-machinery/time";
import { App, type AppStatus } from "../../api/app.ts";
import { Backup } from "../../api/backup.ts";
import { Component } from "../../api/component.ts";
import { appFinalizer, labels } from "../../api/names.ts";
import type { Decision, Effect } from "../effect.ts";
import type { AppObservation } from "./app-observation.ts";
import { setAppConditions } from "./app-status.ts";
import { type LastBackupState, lastBackupsOf, stateOfLastBackup } from "./last-backup.ts";

type Deletion = NonNullable<AppStatus["deletion"]>;

/**
 * Decides about an App that is being deleted. Pure.
 *
 * ```text
 *   [last Backup completed] --> Pods stopped in the plugin's order, the primary last --> [volumes deleted] --> finalizer removed
 * ```
 *
 * **Guarantees**: no volume is deleted unless `spec.deletionPolicy` says so, with `Snapshot` only those of
 * Groups whose Backup has completed. Pods that do not
 * stop do not keep the App forever: after the timeout of a task the garbage collector deletes them.
 */
export function decideDeletion(observed: AppObservation): Decision {
  const { app, now } = observed;
  if (!hasFinalizer(app, appFinalizer)) return { effects: [] };
  const status = draft(app.status ?? {}) as AppStatus;
  const deletion: Deletion = (status.deletion ??= {});
  status.phase = "Deleting";
  const step = backUp(observed, deletion) ?? stop(observed, deletion) ?? deleteVolumes(observed, deletion);
  status.message = step.message;
  status.observedGeneration = app.metadata.generation ?? 0;
  setAppConditions(status, status.observedGeneration, undefined, now);
  const dueMs = parseTime(deletion.stopDeadlineAt ?? "");
  const requeue = dueMs === undefined || deletion.stopped === true ? {} : { requeueAfterMs: Math.max(dueMs - now, 10) };
  if (!jsonEquals(status, app.status ?? {}))
    return { effects: [{ kind: "status", type: App, object: app, status }], ...requeue };
  return { effects: step.effects, ...requeue };
}

interface DeletionStep {
  readonly message: string;
  readonly effects: readonly Effect[];
}

/** How to delete an App whose last Backup does not complete. */
const toSkip = "set spec.deletionPolicy to Retain or Delete";

/** Takes the last Backup of each Group with data. Undefined if none is needed, or all have completed. Mutates `deletion`. */
function backUp({ app, lastBackups, groups }: AppObservation, deletion: Deletion): DeletionStep | undefined {
  if (app.spec.deletionPolicy !== "Snapshot" || deletion.backupCompleted === true || deletion.stopDeadlineAt !== undefined)
    return undefined;
  const wanted = lastBackupsOf(app, groups);
  if (wanted.length === 0) return undefined;
  const messages: string[] = [];
  const effects: Effect[] = [];
  for (const each of wanted) {
    const { metadata } = each.backup;
    if (deletion.backedUpGroups?.includes(each.group) === true) continue;
    const state = stateOfLastBackup(app, each, lastBackups.get(metadata.name ?? ""));
    if (state.kind === "completed") {
      deletion.backedUpGroups = [...(deletion.backedUpGroups ?? []), each.group];
      continue;
    }
    deletion.backup = metadata.name ?? "";
    if (state.kind === "missing") effects.push({ kind: "create", type: Backup, object: each.backup });
    messages.push(describeLastBackup(metadata.name ?? "", state));
  }
  if (messages.length > 0) return { message: messages.join("; "), effects };
  deletion.backup ??= wanted[0]?.backup.metadata.name ?? "";
  deletion.backupCompleted = true;
  return undefined;
}

function describeLastBackup(name: string, state: Exclude<LastBackupState, { readonly kind: "completed" }>): string {
  switch (state.kind) {
    case "foreign":
      return `${state.message}, or ${toSkip}`;
    case "failed":
      return `the last Backup ${name} failed: ${state.message}; delete it to retry, or ${toSkip}`;
    case "running":
      return `waiting for the last Backup ${name}: ${state.message}; to skip it, ${toSkip}`;
    case "missing":
      return `waiting for the last Backup ${name}: creating; to skip it, ${toSkip}`;
  }
}

/** Stops the components in the plugin's order. Undefined when all have stopped, or the timeout has passed. Mutates `deletion`. */
function stop({ app, components, plugin, settings, now }: AppObservation, deletion: Deletion): DeletionStep | undefined {
  if (deletion.stopped === true) return undefined;
  const { timeout = settings.taskTimeout } = app.spec.changePolicy ?? {};
  deletion.stopDeadlineAt ??= formatTime(now + parseDuration(timeout));
  const token = `deletion/${app.metadata.uid ?? ""}/stop`;
  const waiting = [...components]
    .filter(([, component]) => component.metadata.deletionTimestamp === undefined && !hasStopped(component, token))
    .map(([name]) => name);
  const isLate = now >= (parseTime(deletion.stopDeadlineAt) ?? now);
  if (waiting.length === 0 || isLate) {
    deletion.stopped = true;
    return undefined;
  }
  const order = "problem" in plugin ? [waiting] : (plugin.orders.stop ?? [waiting]);
  const current = order.map((stage) => stage.filter((name) => waiting.includes(name))).find((stage) => stage.length > 0);
  const names = current ?? waiting;
  return {
    message: `stopping ${names.join(", ")}`,
    effects: names.flatMap((name) => stopEffects(components.get(name), token)),
  };
}

/** Whether a Component has ended its stop. One that failed is not waited for. */
function hasStopped({ metadata, spec, status }: DeepReadonly<Component>, token: string): boolean {
  const { operation, observedGeneration = 0 } = status ?? {};
  const isCurrent = spec.operation?.token === token && observedGeneration >= (metadata.generation ?? 0);
  return isCurrent && operation?.token === token && operation.phase !== "Running";
}

function stopEffects(component: DeepReadonly<Component> | undefined, token: string): Effect[] {
  if (component === undefined || component.spec.operation?.token === token) return [];
  const { name = "", namespace = "", labels: own, ownerReferences } = component.metadata;
  const spec = { ...component.spec, stopped: true, operation: { token, scenario: "stop" as const } };
  const metadata = { name, namespace, ...(own ? { labels: own } : {}), ...(ownerReferences ? { ownerReferences } : {}) };
  const object: DeepReadonly<Component> = { apiVersion: "middleware.io/v1alpha1", kind: "Component", metadata, spec };
  return [{ kind: "apply", type: Component, object }];
}

/** Deletes the volumes that the policy does not keep, then removes the finalizer. */
function deleteVolumes({ app, claims }: AppObservation, deletion: Deletion): DeletionStep {
  const { deletionPolicy = "Retain" } = app.spec;
  const { backedUpGroups = [] } = deletion;
  const isDeleted = ({ metadata }: (typeof claims)[number]): boolean =>
    deletionPolicy === "Delete" ||
    (deletionPolicy === "Snapshot" && backedUpGroups.includes(metadata.labels?.[labels.group] ?? ""));
  const deletions = claims.filter(isDeleted).map(
    ({ metadata: { name = "", namespace, uid = "" } }): Effect => ({
      kind: "delete",
      type: PersistentVolumeClaim,
      key: { namespace, name },
      uid,
    }),
  );
  return {
    message: deletions.length > 0 ? "deleting the volumes" : "the volumes are kept",
    effects: [...deletions, { kind: "remove-finalizer", type: App, object: app, finalizer: appFinalizer }],
  };
}
