import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { BackupStorage } from "../../api/backup-parts.ts";
import type { Backup } from "../../api/backup.ts";
import type { BackupSchedule } from "../../api/backup-schedule.ts";

/** Directory of the archived log of a BackupSchedule. */
export const logFolderOf = ({ metadata, spec }: DeepReadonly<BackupSchedule>): string =>
  `${metadata.namespace}/${spec.app.name}/${metadata.name}-${(metadata.uid ?? "").slice(0, 8)}-log`;

const wantsLog = ({ metadata, spec }: DeepReadonly<BackupSchedule>): boolean =>
  spec.log === true && spec.suspend !== true && metadata.deletionTimestamp === undefined;

/** The BackupSchedule that archives the log of an App: the oldest with `spec.log`. */
export function responsibleFor(
  app: string,
  schedules: readonly DeepReadonly<BackupSchedule>[],
): DeepReadonly<BackupSchedule> | undefined {
  const created = ({ metadata }: DeepReadonly<BackupSchedule>) => `${metadata.creationTimestamp} ${metadata.name}`;
  return schedules
    .filter((each) => wantsLog(each) && each.spec.app.name === app)
    .sort((a, b) => (created(a) < created(b) ? -1 : 1))[0];
}

/** Directory to which the log of the App of a Backup is archived, if it can be used with that Backup. */
export function findLogFolder(
  { spec }: DeepReadonly<Backup>,
  schedules: readonly DeepReadonly<BackupSchedule>[],
): string | undefined {
  const schedule = responsibleFor(spec.app.name, schedules);
  const isSame =
    schedule !== undefined &&
    jsonEquals(placeOf(schedule.spec.storage), placeOf(spec.storage)) &&
    jsonEquals(schedule.spec.encryption, spec.encryption);
  return isSame ? logFolderOf(schedule) : undefined;
}

/** The storage without how a volume is created. */
const placeOf = ({ volume, s3 }: DeepReadonly<BackupStorage>) => (volume === undefined ? { s3 } : { claim: volume.claimName });
