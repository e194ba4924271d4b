import type { DeepReadonly } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import type { App } from "../../api/app.ts";
import type { Backup } from "../../api/backup.ts";
import type { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import { storageOfApp } from "./app-backup.ts";

/** A Backup of one Group that precedes the deletion of an App. */
export interface LastBackup {
  /** Name of the Group object. */
  readonly group: string;
  readonly backup: DeepReadonly<Backup>;
}

/** State of a {@link LastBackup}. */
export type LastBackupState =
  | { readonly kind: "completed" }
  | { readonly kind: "missing" }
  | { readonly kind: "running"; readonly message: string }
  | { readonly kind: "failed"; readonly message: string }
  /** An object of that name that does not contain the data of the Group as of the deletion. */
  | { readonly kind: "foreign"; readonly message: string };

/** Name of the Backup that precedes the deletion of an App. With several groups, the prefix of their names. */
export const lastBackupName = ({ metadata }: DeepReadonly<App>): string =>
  `${metadata.name ?? ""}-last-${(metadata.uid ?? "").slice(0, 8)}`;

/** Whether a Backup may be a last Backup of an App, by its name. */
export function isLastBackup(app: DeepReadonly<App>, { metadata }: DeepReadonly<Backup>): boolean {
  const name = lastBackupName(app);
  return metadata.name === name || (metadata.name?.startsWith(`${name}-`) ?? false);
}

/** The last Backups of an App: one per Group that runs and has a primary. Other Groups have nothing to take a snapshot of. */
export function lastBackupsOf(app: DeepReadonly<App>, groups: readonly DeepReadonly<Group>[]): readonly LastBackup[] {
  const running = groups.filter(({ spec, status }) => spec.stopped !== true && status?.primary !== undefined);
  return running.map(({ metadata }) => {
    const component = metadata.labels?.[labels.component];
    const group = metadata.labels?.[labels.group];
    const suffix = running.length === 1 ? "" : `-${component ?? ""}-${group ?? ""}`;
    return { group: metadata.name ?? "", backup: lastBackupOf(app, `${lastBackupName(app)}${suffix}`, { component, group }) };
  });
}

/** The Backup has no owner, so that it outlives the App. It contains every write that the primary acknowledged before it started. */
function lastBackupOf(
  app: DeepReadonly<App>,
  backupName: string,
  { component, group }: { readonly component: string | undefined; readonly group: string | undefined },
): DeepReadonly<Backup> {
  const { name = "", namespace = "" } = app.metadata;
  const { encryption } = app.spec.backup ?? {};
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Backup",
    metadata: { name: backupName, namespace, labels: { [labels.app]: name } },
    spec: {
      app: { name, ...(component === undefined ? {} : { component }), ...(group === undefined ? {} : { group }) },
      storage: storageOfApp(app),
      deletionPolicy: "Retain",
      maxReplicationLag: "0",
      ...(encryption === undefined ? {} : { encryption }),
    },
  };
}

/**
 * State of a last Backup. A Backup counts only if it was created after the App was deleted and contains the Group: the volumes are deleted
 * because it exists.
 */
export function stateOfLastBackup(
  app: DeepReadonly<App>,
  { backup: { metadata, spec } }: LastBackup,
  found: DeepReadonly<Backup> | undefined,
): LastBackupState {
  if (found === undefined) return { kind: "missing" };
  const { status } = found;
  if (found.metadata.deletionTimestamp !== undefined)
    return { kind: "foreign", message: `waiting for the Backup ${metadata.name} to be deleted, to take another one` };
  const createdMs = parseTime(found.metadata.creationTimestamp ?? "") ?? Number.NEGATIVE_INFINITY;
  const deletedMs = parseTime(app.metadata.deletionTimestamp ?? "") ?? Number.POSITIVE_INFINITY;
  const isOfGroup =
    found.spec.app.name === spec.app.name &&
    (status?.component ?? found.spec.app.component ?? spec.app.component) === spec.app.component &&
    (status?.group ?? found.spec.app.group ?? spec.app.group) === spec.app.group;
  if (createdMs < deletedMs || !isOfGroup)
    return {
      kind: "foreign",
      message: `the Backup ${metadata.name} was not created for this deletion; delete it to take another one`,
    };
  const { source } = status ?? {};
  if (status?.phase === "Completed" && source?.role === "replica" && source.lagBytes === undefined)
    return { kind: "failed", message: `the primary did not respond, so it is unknown whether ${source.pod} had all its data` };
  if (status?.phase === "Completed") return { kind: "completed" };
  if (status?.phase === "Failed") return { kind: "failed", message: status.message ?? "" };
  return { kind: "running", message: status?.message ?? "creating" };
}
