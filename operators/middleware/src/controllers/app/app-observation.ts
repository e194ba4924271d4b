import type { DeepReadonly } from "@keelson/api-machinery";
import type { ConfigMapObject, PersistentVolumeClaimObject } from "@keelson/api-machinery/kinds";
import type { App } from "../../api/app.ts";
import type { Backup } from "../../api/backup.ts";
import type { BackupSchedule } from "../../api/backup-schedule.ts";
import type { Component } from "../../api/component.ts";
import type { Group } from "../../api/group.ts";
import type { AppSettings } from "../../settings/controller-settings.ts";
import type { FieldError } from "../plan/validate-app.ts";
import type { Plugin } from "../../plugin/plugin.ts";

/** Inputs of a decision about an App. */
export interface AppObservation {
  readonly app: DeepReadonly<App>;
  /** Components of the App by component name. */
  readonly components: ReadonlyMap<string, DeepReadonly<Component>>;
  /** Groups of the App. */
  readonly groups: readonly DeepReadonly<Group>[];
  /** The plugin, or why it cannot be used. */
  readonly plugin: Plugin | { readonly problem: string };
  /** Why its certificates cannot be used, if the spec is not accepted yet. */
  readonly certificateProblems: readonly FieldError[];
  readonly metadata: DeepReadonly<ConfigMapObject> | undefined;
  /** The BackupSchedule with the name of the App. */
  readonly backupSchedule: DeepReadonly<BackupSchedule> | undefined;
  /** Volumes of the App's Pods. */
  readonly claims: readonly DeepReadonly<PersistentVolumeClaimObject>[];
  /** The Backups that precede the deletion, by name. */
  readonly lastBackups: ReadonlyMap<string, DeepReadonly<Backup>>;
  readonly settings: AppSettings;
  readonly now: number;
}
