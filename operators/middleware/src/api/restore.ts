import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { choice, conditions, duration, int32, int64, partName, time } from "@keelson/api-machinery/fields";
import { retryStatus, transferStatus } from "./backup-parts.ts";
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
    ],
  },
);
/** Desired state of a Restore. */
export type RestoreSpec = Static<typeof spec>;

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
    ...retryStatus,
    transfer: Type.Optional(transferStatus),
    /** The garbage collector deletes the scratch App with this Pod: the controller has no right to delete Apps. */
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
