import type { RecoveryTarget } from "@keelson/middleware-agent";
import type { Artifact } from "./artifact.ts";

/** Where a Pod that transfers data finds the storage. */
export type TransferStorage =
  | { readonly kind: "volume"; readonly root: string }
  | {
      readonly kind: "s3";
      readonly endpoint: string;
      readonly bucket: string;
      readonly region?: string;
      readonly prefix?: string;
    };

/** A backup to take. */
export interface BackupTransfer {
  readonly kind: "backup";
  /** Address of the agent of the source. */
  readonly agent: string;
  /** Directory of the data. */
  readonly path: string;
  /** Whether the data must be encrypted. Without a key the transfer fails. Default: false. */
  readonly mustEncrypt?: boolean;
  /** Description of the backup for `manifest.json`, which users read. */
  readonly description: Readonly<Record<string, unknown>>;
}

/** Stored data to verify; with an agent also by its program. */
export interface CheckTransfer {
  readonly kind: "check";
  readonly agent?: string;
  readonly artifact: Artifact;
  readonly recovery?: RecoveryTransfer;
}

/** Archived log to apply to stored data. */
export interface RecoveryTransfer {
  /** Directory of the log. */
  readonly folder: string;
  readonly target: RecoveryTarget;
}

/** The log of a program to archive, until the Pod is deleted. */
export interface ArchiveTransfer {
  readonly kind: "archive";
  /** Address of the agent of the primary. */
  readonly agent: string;
  readonly folder: string;
  /** Whether the log must be encrypted. */
  readonly mustEncrypt: boolean;
  /** The first files that the oldest backups need: what was archived before all of them is deleted. */
  readonly keepFrom?: readonly string[];
}

/** Stored data to verify, and then to load into a primary. */
export interface LoadTransfer {
  readonly kind: "load";
  readonly agent: string;
  readonly artifact: Artifact;
  readonly recovery?: RecoveryTransfer;
}

/** Stored data to delete. */
export interface DeleteTransfer {
  readonly kind: "delete";
  readonly path: string;
}

/** The work of one Pod. It contains no secrets: those are passed in environment variables. */
export type TransferWork = BackupTransfer | CheckTransfer | LoadTransfer | ArchiveTransfer | DeleteTransfer;

/** The work of one Pod, and the storage. */
export type TransferRequest = TransferWork & { readonly storage: TransferStorage };

/** Environment variables of a Pod that transfers data. */
export const transferVariables = {
  request: "KEELSON_TRANSFER",
  token: "AGENT_TOKEN",
  encryptionKey: "BACKUP_ENCRYPTION_KEY",
  accessKeyId: "AWS_ACCESS_KEY_ID",
  secretAccessKey: "AWS_SECRET_ACCESS_KEY",
} as const;

/** Result of a transfer, as the termination message of its Pod. */
export type TransferResult =
  | { readonly ok: true; readonly artifact?: Artifact; readonly keys?: number; readonly expiringKeys?: number }
  /** `isFinal`: a retry cannot succeed. `isDataKept`: the program is known to have kept its data. */
  | { readonly ok: false; readonly error: string; readonly isFinal: boolean; readonly isDataKept?: boolean };
