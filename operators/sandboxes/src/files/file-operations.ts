/* File operations in a sandbox: what an agent asks its helper process, which runs as the sandbox's user. */

/** A file of a sandbox. */
export interface FileInfo {
  /** Its name in its directory; `/` for the root. */
  readonly name: string;
  readonly type: "file" | "directory" | "symlink" | "other";
  readonly sizeBytes: number;
  /** Permission bits. */
  readonly mode: number;
  /** Milliseconds since the epoch. */
  readonly modifiedMs: number;
  /** Target of a symbolic link. */
  readonly target?: string;
}

/**
 * Identifies a file while it is read; opaque to callers. A number if that represents it, which agents and operators of all versions accept,
 * otherwise decimal digits: overlays, for example, have inodes of 64 bits.
 */
export type Inode = number | string;

/** The number of an inode as an {@link Inode}. */
export const inodeOf = (ino: bigint): Inode => (ino <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(ino) : ino.toString());

/** Whether a value from another process is an {@link Inode}. */
export const isInode = (value: unknown): value is Inode =>
  typeof value === "string" ? /^\d{1,20}$/.test(value) : Number.isSafeInteger(value) && Number(value) >= 0;

/** One operation. Paths are absolute, or relative to the work directory. Links are followed within the sandbox's root. */
export type FileOperation =
  | { readonly kind: "stat"; readonly path: string }
  | { readonly kind: "list"; readonly path: string }
  /** Reads at most {@link maxChunkBytes}. `inode` is that of an earlier chunk of the same file. */
  | { readonly kind: "read"; readonly path: string; readonly offset: number; readonly inode?: Inode }
  /** Writes a chunk of a new file that only this operation knows, alongside `path`. The first one creates it. */
  | {
      readonly kind: "write";
      readonly path: string;
      readonly upload: string;
      readonly offset: number;
      readonly data: Uint8Array;
    }
  /** Replaces `path` by the new file. */
  | { readonly kind: "commit"; readonly path: string; readonly upload: string; readonly mode: number }
  /** Removes the new file. */
  | { readonly kind: "abort"; readonly path: string; readonly upload: string }
  | { readonly kind: "remove"; readonly path: string; readonly isRecursive: boolean }
  /** Creates a directory and its parents. */
  | { readonly kind: "make-directory"; readonly path: string };

/** The result of an operation. */
export interface FileResult {
  readonly info?: FileInfo;
  readonly entries?: readonly FileInfo[];
  readonly data?: Uint8Array;
  readonly inode?: Inode;
}

/** Codes of {@link FileError}. */
export const fileErrorCodes = ["NotFound", "Denied", "Conflict", "NoSpace", "TooLarge", "Invalid", "Failed"] as const;

/** A file operation failed. */
export class FileError extends Error {
  override readonly name = "FileError";
  /** `Conflict`: the file is not of the required kind, exists, is not empty, or changed in the meantime. `TooLarge`: too many entries. */
  readonly code: (typeof fileErrorCodes)[number];

  constructor(code: FileError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Maximum size of one chunk of a file. */
export const maxChunkBytes = 256 * 1024;

/** Maximum number of entries of a listed directory. */
export const maxEntries = 10_000;

/** Maximum length of a path, as PATH_MAX. */
export const maxPathBytes = 4096;
