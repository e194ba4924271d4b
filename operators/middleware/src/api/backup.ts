import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, choice, conditions, duration, int32, int64, time } from "@keelson/api-machinery/fields";
import { artifact, backupSettings, deletionPolicy, retryStatus, transferStatus } from "./backup-parts.ts";
import { group, version } from "./names.ts";

const spec = Type.Object(
  {
    ...backupSettings,
    deletionPolicy: Type.Optional(deletionPolicy("Retain")),
    timeout: Type.Optional(duration("Timeout of an attempt.", { default: "1h" })),
    maxRetries: Type.Optional(int32("Maximum retries after the first attempt.", { minimum: 0, maximum: 100, default: 3 })),
  },
  {
    description: "What is backed up, and where it is stored.",
    "x-kubernetes-validations": [
      {
        rule: "self.app == oldSelf.app && self.storage == oldSelf.storage && has(self.encryption) == has(oldSelf.encryption)",
        message: "app, storage and encryption must not change",
      },
    ],
  },
);
/** Desired state of a Backup. */
export type BackupSpec = Static<typeof spec>;

const status = Type.Object(
  {
    phase: Type.Optional(choice(["Pending", "Running", "Completed", "Failed", "Deleting"], "Phase of the Backup.")),
    message: Type.Optional(Type.String({ description: "Human-readable progress." })),
    observedGeneration: Type.Optional(int64("Most recently observed generation of the spec.")),
    source: Type.Optional(
      Type.Object(
        {
          pod: Type.String({ description: "Name of the Pod." }),
          role: Type.String({ description: "Its role: replica or primary." }),
          reason: Type.String({ description: "Why this Pod was chosen." }),
          lagBytes: Type.Optional(int64("Its lag behind the primary, in bytes.")),
        },
        { description: "The Pod whose data is backed up." },
      ),
    ),
    component: Type.Optional(Type.String({ description: "Component that was backed up." })),
    group: Type.Optional(Type.String({ description: "Group that was backed up." })),
    /** The spec of the App, from which a Restore creates a new one. */
    appSpec: Type.Optional(anyMap("The spec of the App at the time of the backup.")),
    image: Type.Optional(Type.String({ description: "Image of the Pods that transfer data: that of the source." })),
    startedAt: Type.Optional(time("When the first attempt started.")),
    completedAt: Type.Optional(time("When the backup was complete, or had failed.")),
    ...retryStatus,
    transfer: Type.Optional(transferStatus),
    /** Directories of failed attempts are deleted with the Backup. */
    folder: Type.Optional(Type.String({ description: "Directory of the Backup in the storage." })),
    artifact: Type.Optional(artifact),
    logFolder: Type.Optional(
      Type.String({
        description: "Directory in the storage to which the log of the App was archived when the backup started.",
      }),
    ),
    conditions: Type.Optional(conditions("Complete, and Verified with spec.verify.")),
  },
  { description: "Observed state of the Backup." },
);
/** Observed state of a Backup. */
export type BackupStatus = Static<typeof status>;

/** One backup of an App. */
export const Backup = defineResource({
  group,
  version,
  kind: "Backup",
  plural: "backups",
  shortNames: ["mwb"],
  description: "One backup of an App: a consistent snapshot from a replica, with checksums, in a volume or a bucket.",
  spec,
  status,
  columns: [
    { name: "App", type: "string", jsonPath: ".spec.app.name" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Keys", type: "integer", jsonPath: ".status.artifact.keys" },
    { name: "Bytes", type: "integer", jsonPath: ".status.artifact.storedBytes" },
    { name: "Source", type: "string", jsonPath: ".status.source.pod" },
    { name: "Verified", type: "string", jsonPath: '.status.conditions[?(@.type=="Verified")].status' },
    { name: "Completed", type: "date", jsonPath: ".status.completedAt" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Backup = ObjectType<typeof Backup>;
