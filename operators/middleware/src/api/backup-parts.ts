import { type Static, Type } from "typebox";
import { choice, int32, int64, partName, quantity, time } from "@keelson/api-machinery/fields";
import { group } from "./names.ts";

/** Finalizer of Backups with stored data, and of Restores with a scratch App. */
export const backupFinalizer = `${group}/backup-data`;

/** A key of a Secret in the same namespace. */
const secretKey = (description: string, key: string) =>
  Type.Object(
    {
      name: Type.String({ description: "Name of the Secret, in the same namespace.", minLength: 1, maxLength: 253 }),
      key: Type.Optional(Type.String({ description: `Key within the Secret. Default: ${key}.`, minLength: 1, maxLength: 253 })),
    },
    { description },
  );

/** Any name except `.` and `..`, without lookahead, which the API server's expressions lack. */
const prefixSegment = String.raw`(\.?[A-Za-z0-9_-][A-Za-z0-9._-]*|\.\.[A-Za-z0-9._-]+)`;

/** Where backups are stored: exactly one of a volume and a bucket. */
export const backupStorage = Type.Object(
  {
    volume: Type.Optional(
      Type.Object(
        {
          claimName: partName("Name of a PersistentVolumeClaim in the same namespace."),
          size: Type.Optional(quantity("Size. If it is set, a missing claim is created; existing ones are never changed.")),
          storageClass: Type.Optional(Type.String({ description: "StorageClass of a claim that is created." })),
        },
        { description: "A volume." },
      ),
    ),
    s3: Type.Optional(
      Type.Object(
        {
          endpoint: Type.String({
            description: "URL of the S3-compatible service, without the bucket.",
            pattern: "^https?://[^/?#]+/?$",
            maxLength: 1_000,
          }),
          bucket: Type.String({ description: "Name of the bucket.", pattern: "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$" }),
          region: Type.Optional(Type.String({ description: "Region. Default: auto.", maxLength: 100 })),
          prefix: Type.Optional(
            Type.String({
              description: "Directory in the bucket. Its segments must not be . or ..",
              pattern: `^${prefixSegment}(/${prefixSegment})*$`,
              maxLength: 500,
            }),
          ),
          credentials: Type.Object(
            {
              name: Type.String({
                description: "Name of the Secret, with the keys accessKeyId and secretAccessKey.",
                minLength: 1,
                maxLength: 253,
              }),
            },
            { description: "A Secret in the same namespace." },
          ),
        },
        { description: "A bucket of an S3-compatible service." },
      ),
    ),
  },
  {
    description: "Where backups are stored: a volume or a bucket.",
    "x-kubernetes-validations": [
      { rule: "has(self.volume) != has(self.s3)", message: "exactly one of volume and s3 must be set" },
    ],
  },
);
/** Where backups are stored. */
export type BackupStorage = Static<typeof backupStorage>;

/** Encryption of the stored data. */
export const backupEncryption = Type.Object(
  {
    keySecret: secretKey(
      "The key: 32 random bytes as base64 or hexadecimal digits. Without it the data cannot be restored.",
      "key",
    ),
  },
  { description: "Encrypts the stored data with AES-256-GCM." },
);

/** Values of {@link deletionPolicy}. */
export const backupDeletionPolicies = ["Retain", "Delete"] as const;

/** What happens to the stored data when a Backup is deleted. */
export const deletionPolicy = (initial: (typeof backupDeletionPolicies)[number]) =>
  choice(backupDeletionPolicies, "What happens to the stored data when the Backup is deleted.", { default: initial });

/** Fields of a Backup that a BackupSchedule also has. */
export const backupSettings = {
  app: Type.Object(
    {
      name: partName("Name of the App, in the same namespace."),
      component: Type.Optional(partName("Name of the component. Default: the only one with data.", 40)),
      group: Type.Optional(partName("Name of the group. Default: the only one with data.", 40)),
    },
    { description: "What is backed up." },
  ),
  storage: backupStorage,
  encryption: Type.Optional(backupEncryption),
  maxReplicationLag: Type.Optional(
    quantity("Maximum lag of a replica in bytes. If every replica lags further behind, the primary is used. Default: 1Mi."),
  ),
  verify: Type.Optional(
    Type.Boolean({
      description: "Restores each backup into a scratch App, compares it, and deletes the scratch App. Default: false.",
    }),
  ),
};

/** The stored data. */
export const artifact = Type.Object(
  {
    path: Type.String({ description: "Path of the data in the storage." }),
    sizeBytes: int64("Size of the snapshot."),
    sha256: Type.String({ description: "SHA-256 of the snapshot." }),
    storedBytes: int64("Size of the stored file."),
    storedSha256: Type.String({ description: "SHA-256 of the stored file." }),
    keys: int64("Number of keys, or of another unit of the program."),
    unit: Type.Optional(Type.String({ description: "What keys counts, such as files. Default: keys." })),
    expiringKeys: int64("Number of keys with a time to live."),
    format: Type.String({ description: "Format of the snapshot, such as rdb." }),
    programVersion: Type.String({ description: "Version of the program that wrote it." }),
    logStart: Type.Optional(
      Type.String({ description: "First file of the log with which the data can be recovered to a later state." }),
    ),
    keyId: Type.Optional(Type.String({ description: "Identifies the encryption key. Unset: the data is not encrypted." })),
  },
  { description: "The stored data." },
);

/** Progress of the Pod that transfers data. */
export const transferStatus = Type.Object(
  {
    pod: Type.String({ description: "Name of the Pod." }),
    uid: Type.Optional(Type.String({ description: "UID of the Pod, once it exists." })),
    step: choice(["backup", "check", "load", "delete"], "What the Pod does."),
    agent: Type.Optional(Type.String({ description: "Address of the agent that the Pod uses." })),
    path: Type.Optional(Type.String({ description: "Directory that a backup is written to." })),
    startedAt: time("When the attempt was recorded."),
    deadlineAt: time("When the attempt times out."),
  },
  { description: "The Pod that transfers data." },
);
/** Progress of the Pod that transfers data. */
export type TransferStatus = Static<typeof transferStatus>;

/** Retries of transfers. */
export const retryStatus = {
  attempt: Type.Optional(int32("Number of the last attempt of the current step, from 1.")),
  /** Counts Pods of all steps, so that no name is used twice. */
  transfers: Type.Optional(int32("Number of Pods created so far.")),
  retryAt: Type.Optional(time("When the next attempt starts.")),
};
