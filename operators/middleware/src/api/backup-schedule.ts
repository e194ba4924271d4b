import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { choice, conditions, duration, int32, int64, time } from "@keelson/api-machinery/fields";
import { backupSettings, deletionPolicy } from "./backup-parts.ts";
import { group, version } from "./names.ts";

const spec = Type.Object(
  {
    ...backupSettings,
    schedule: Type.String({
      description: "When backups are taken: cron syntax with five fields, or @hourly, @daily, @weekly, @monthly, @yearly.",
      minLength: 1,
      maxLength: 200,
    }),
    timeZone: Type.Optional(Type.String({ description: "Time zone of the schedule. Default: UTC.", maxLength: 100 })),
    suspend: Type.Optional(Type.Boolean({ description: "Takes no more backups and archives no log. Retention continues." })),
    concurrencyPolicy: Type.Optional(
      choice(
        ["Allow", "Forbid", "Replace"],
        "What happens if a backup is due while another one runs: both run, the new one is skipped, or the old one is deleted.",
        { default: "Forbid" },
      ),
    ),
    startingDeadline: Type.Optional(duration("A backup that is later than this is skipped. Default: no deadline.")),
    retention: Type.Optional(
      Type.Object(
        {
          count: Type.Optional(int32("Number of complete backups to keep.", { minimum: 1 })),
          maxAge: Type.Optional(duration("Age after which complete backups are deleted.")),
        },
        { description: "Which backups are deleted. The newest complete backup is always kept, and so are running ones." },
      ),
    ),
    deletionPolicy: Type.Optional(deletionPolicy("Delete")),
    log: Type.Optional(
      Type.Boolean({
        description:
          "Archives the log of the App continuously, so that its backups can be recovered to any later time. Log that no backup needs is deleted. Default: false.",
      }),
    ),
  },
  {
    description: "When backups are taken, and how long they are kept.",
    "x-kubernetes-validations": [{ rule: "self.app == oldSelf.app", message: "app must not change" }],
  },
);
/** Desired state of a BackupSchedule. */
export type BackupScheduleSpec = Static<typeof spec>;

const status = Type.Object(
  {
    observedGeneration: Type.Optional(int64("Most recently observed generation of the spec.")),
    lastScheduleTime: Type.Optional(time("The last time for which a backup was started or skipped.")),
    nextScheduleTime: Type.Optional(time("The next scheduled time.")),
    lastSuccessTime: Type.Optional(time("When the newest complete backup was complete.")),
    lastBackup: Type.Optional(Type.String({ description: "Name of the newest complete Backup." })),
    backups: Type.Optional(int32("Number of complete Backups.")),
    message: Type.Optional(Type.String({ description: "Human-readable problem or decision." })),
    log: Type.Optional(
      Type.Object(
        {
          folder: Type.String({ description: "Directory of the log in the storage." }),
          lastFile: Type.Optional(Type.String({ description: "The last archived file." })),
          archivedAt: Type.Optional(Type.String({ description: "When it was archived." })),
          backlog: Type.Optional(int32("Number of complete files that have not been archived.")),
          behindSince: Type.Optional(time("Since when there are such files.")),
          missing: Type.Optional(
            Type.String({ description: "The first file after log that was lost before it was archived." }),
          ),
          missingAt: Type.Optional(time("When that was noticed.")),
        },
        { description: "The archive of the log." },
      ),
    ),
    conditions: Type.Optional(conditions("Ready, and LogArchived with spec.log.")),
  },
  { description: "Observed state of the BackupSchedule." },
);
/** Observed state of a BackupSchedule. */
export type BackupScheduleStatus = Static<typeof status>;

/** Backups of an App at scheduled times. */
export const BackupSchedule = defineResource({
  group,
  version,
  kind: "BackupSchedule",
  plural: "backupschedules",
  shortNames: ["mwbs"],
  description: "Backups of an App at scheduled times, and their retention.",
  spec,
  status,
  columns: [
    { name: "App", type: "string", jsonPath: ".spec.app.name" },
    { name: "Schedule", type: "string", jsonPath: ".spec.schedule" },
    { name: "Suspend", type: "boolean", jsonPath: ".spec.suspend" },
    { name: "Backups", type: "integer", jsonPath: ".status.backups" },
    { name: "Last Success", type: "date", jsonPath: ".status.lastSuccessTime" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type BackupSchedule = ObjectType<typeof BackupSchedule>;
