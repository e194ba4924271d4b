import type { DeepReadonly } from "@keelson/api-machinery";
import type { PersistentVolumeClaimObject, PodObject } from "@keelson/api-machinery/kinds";
import type { App } from "../../api/app.ts";
import type { Backup } from "../../api/backup.ts";
import type { Group } from "../../api/group.ts";
import { annotations } from "../../api/names.ts";
import type { Restore, RestoreSource, RestoreStatus } from "../../api/restore.ts";

/** Inputs of a decision about a Restore. */
export interface RestoreObservation {
  readonly restore: DeepReadonly<Restore>;
  readonly backup: DeepReadonly<Backup> | undefined;
  /** The App to restore into. */
  readonly app: DeepReadonly<App> | undefined;
  /** The group of that App that the backup belongs to. */
  readonly group: DeepReadonly<Group> | undefined;
  /** Address of the primary of that group. */
  readonly primary: string | undefined;
  /** All Pods that transfer data for this Restore. */
  readonly pods: readonly DeepReadonly<PodObject>[];
  /** Claims of that App, and those that a deleted App of its name has left. */
  readonly claims: readonly DeepReadonly<PersistentVolumeClaimObject>[];
  /** Command line of the Pods that transfer data. */
  readonly command: readonly string[];
  readonly now: number;
}

/** Name of the App that a Restore changes or creates. */
export const targetApp = ({ metadata, spec }: DeepReadonly<Restore>): string => spec.app?.name ?? `${metadata.name}-scratch`;

/** Whether a Restore has ended. */
export const hasEnded = ({ phase }: DeepReadonly<RestoreStatus>): boolean => phase === "Completed" || phase === "Failed";

/** Whether a Restore created an App. */
export const isOwnApp = (app: DeepReadonly<App> | undefined, { metadata }: DeepReadonly<Restore>): boolean =>
  app?.metadata.annotations?.[annotations.restoredBy] === metadata.uid;

/** What a Restore uses of its Backup: recorded before the data is verified, because the Backup may be deleted in the meantime. */
export function sourceOf(
  status: DeepReadonly<RestoreStatus> | undefined,
  backup: DeepReadonly<Backup> | undefined,
): DeepReadonly<RestoreSource> | undefined {
  if (status?.source !== undefined) return status.source;
  const { artifact, image = "", component = "", group = "", appSpec = {}, logFolder } = backup?.status ?? {};
  if (backup === undefined || artifact === undefined) return undefined;
  const { storage, encryption } = backup.spec;
  return {
    storage,
    ...(encryption === undefined ? {} : { encryption }),
    ...(logFolder === undefined ? {} : { logFolder }),
    ...{ artifact, image, component, group, appSpec },
  };
}
