import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, choice, conditions, duration, int32, int64, partName, time } from "@keelson/api-machinery/fields";
import { artifact, backupEncryption, backupStorage, retryStatus, transferStatus } from "./backup-parts.ts";
import { group, version } from "./names.ts";

const spec = Type.Object(
  {
    backup: Type.Object({ name: partName("Name of the Backup, in the same namespace.") }, { description: "What is restored." }),
    app: Type.Optional(
      Type.Object(
        {
          name: partName(
            "Name of the App, in the same namespace. It is created with the spec of the backup if it does not exist.",
            40,
          ),
        },
        { description: "Where the data is restored. Required without verify." },
      ),
    ),
    target: Type.Optional(
      Type.Object(
        {
          time: Type.Optional(time("The last transaction before this time.")),
          position: Type.Optional(
            Type.String({ description: "A position of the program, such as an LSN.", minLength: 1, maxLength: 100 }),
          ),
          latest: Type.Optional(Type.Boolean({ description: "The end of the archived log." })),
        },
        {
          description: "State to recover, with log that a BackupSchedule has archived. Default: the state of the backup.",
          "x-kubernetes-validations": [
            {
              rule: "(has(self.time) ? 1 : 0) + (has(self.position) ? 1 : 0) + (has(self.latest) && self.latest ? 1 : 0) == 1",
              message: "exactly one of time, position and latest must be set",
            },
          ],
        },
      ),
    ),
    overwrite: Type.Optional(
      Type.String({ description: "Confirms that all data of an existing App is replaced: the name of the App." }),
    ),
    verify: Type.Optional(
      Type.Boolean({
        description: "Restores into a scratch App, compares it with the backup, and deletes the scratch App. Default: false.",
      }),
    ),
    timeout: Type.Optional(duration("Timeout of an attempt of each step.", { default: "1h" })),
    maxRetries: Type.Optional(
      int32("Maximum retries of each step after its first attempt.", { minimum: 0, maximum: 100, default: 3 }),
    ),
  },
  {
    description: "What is restored, and where.",
    "x-kubernetes-validations": [
      {
        rule: "has(self.app) != (has(self.verify) && self.verify)",
        message: "app must be set, unless verify is true",
      },
      {
        rule: "self.backup == oldSelf.backup && has(self.app) == has(oldSelf.app) && (!has(self.app) || self.app == oldSelf.app)",
        message: "backup and app must not change",
      },
      {
        rule: "has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target)",
        message: "target must not change",
      },
    ],
  },
);
/** Desired state of a Restore. */
export type RestoreSpec = Static<typeof spec>;

const source = Type.Object(
  {
    storage: backupStorage,
    encryption: Type.Optional(backupEncryption),
    artifact,
    logFolder: Type.Optional(Type.String({ description: "Directory of the archived log." })),
    image: Type.String({ description: "Image of the Pods that transfer data." }),
    component: Type.String({ description: "Component that was backed up." }),
    group: Type.String({ description: "Group that was backed up." }),
    appSpec: anyMap("The spec of the App at the time of the backup."),
  },
  { description: "Fields of the Backup that the Restore needs. The Backup may be deleted once loading has started." },
);
/** What a Restore uses of its Backup. */
export type RestoreSource = Static<typeof source>;

const status = Type.Object(
  {
    phase: Type.Optional(
      choice(
        ["Pending", "Checking", "Creating", "Loading", "Syncing", "Completed", "Failed"],
        "Phase of the Restore. Nothing is changed before Creating or Loading.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "Human-readable progress." })),
    observedGeneration: Type.Optional(int64("Most recently observed generation of the spec.")),
    app: Type.Optional(Type.String({ description: "Name of the App." })),
    /** Recorded before the App is created, so that the Restore recognizes it after a crash. */
    createsApp: Type.Optional(Type.Boolean({ description: "Whether this Restore creates the App." })),
    startedAt: Type.Optional(time("When the Restore started.")),
    completedAt: Type.Optional(time("When the Restore completed or failed.")),
    source: Type.Optional(source),
    deadlineAt: Type.Optional(time("When the phase Creating or Syncing times out.")),
    /** A different primary may never have received the data. */
    loadedInto: Type.Optional(
      Type.Object(
        { pod: Type.String({ description: "Name of the Pod." }), epoch: int64("Epoch of the primary.") },
        { description: "The primary into which the data was loaded. The data is loaded again if it changes." },
      ),
    ),
    reloads: Type.Optional(int32("Number of loads after the first. At most spec.maxRetries.")),
    ...retryStatus,
    transfer: Type.Optional(transferStatus),
    /** The garbage collector deletes the scratch App with this Pod: the controller has no permission to delete Apps. */
    scratchOwner: Type.Optional(
      Type.Object(
        { name: Type.String({ description: "Name of the Pod." }), uid: Type.String({ description: "UID of the Pod." }) },
        { description: "The Pod that owns the scratch App. The scratch App is deleted with it." },
      ),
    ),
    keys: Type.Optional(int64("Number of keys after the load.")),
    conditions: Type.Optional(conditions("Complete.")),
  },
  { description: "Observed state of the Restore." },
);
/** Observed state of a Restore. */
export type RestoreStatus = Static<typeof status>;

/** Restores a backup into a new or an existing App. */
export const Restore = defineResource({
  group,
  version,
  kind: "Restore",
  plural: "restores",
  shortNames: ["mwr"],
  description: "Restores a backup into a new or an existing App, once. The backup is verified before anything is changed.",
  spec,
  status,
  columns: [
    { name: "Backup", type: "string", jsonPath: ".spec.backup.name" },
    { name: "App", type: "string", jsonPath: ".status.app" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Message", type: "string", jsonPath: ".status.message" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Restore = ObjectType<typeof Restore>;
