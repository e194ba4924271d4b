import { type FileHandle, mkdir, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { AuditError } from "./audit-error.ts";
import type { AuditMetrics } from "./audit-metrics.ts";
import { backupPath, pruneBackups } from "./log-backups.ts";

/** The file of an audit log and how it is rotated. The names and meanings are those of kube-apiserver's flags. */
export interface AuditLogFile {
  readonly path: string;
  /** Size in MiB at which the file is rotated. 0: 100. */
  readonly maxSize: number;
  /** Number of rotated files to keep. 0: all. */
  readonly maxBackups: number;
  /** Age in days at which rotated files are deleted. 0: never. */
  readonly maxAge: number;
}

/** What {@link openAuditLog} takes. */
export interface AuditLogOptions {
  readonly file: AuditLogFile;
  readonly clock: Pick<Clock, "now">;
  readonly metrics: AuditMetrics;
  /** Called with the first error of a series of failed writes. */
  readonly onError: (error: unknown) => void;
  /** Bytes that may wait for the disk. Default 32 MiB. Events beyond are lost and counted. */
  readonly maxPendingBytes?: number;
}

const lineBreak = 0x0a;
const defaultMaxSize = 100;
const defaultMaxPendingBytes = 32 * 1024 * 1024;

/**
 * Opens an audit log: creates the file and its directory if they do not exist, readable by the user only.
 *
 * **Errors**: rejects with an {@link AuditError} if the file cannot be opened.
 */
export async function openAuditLog(options: AuditLogOptions): Promise<AuditLog> {
  const { path } = options.file;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const handle = await openFile(path);
    return new AuditLog(options, handle, await continued(handle, options.metrics));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new AuditError("Unwritable", `could not open the audit log ${path}: ${why}`, { cause: error });
  }
}

/**
 * Appends lines to a file, in batches. `write` never waits: lines that the disk does not take in time are lost and counted, so that a
 * slow or full disk does not delay requests.
 */
export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #maxBytes: number;
  readonly #maxPendingBytes: number;
  #handle: FileHandle;
  #size: number;
  #pending: string[] = [];
  #pendingBytes = 0;
  #flushing: Promise<void> | undefined;
  #isFailing = false;
  #isClosed = false;

  constructor(options: AuditLogOptions, handle: FileHandle, size: number) {
    this.#options = options;
    this.#maxBytes = (options.file.maxSize || defaultMaxSize) * 1024 * 1024;
    this.#maxPendingBytes = options.maxPendingBytes ?? defaultMaxPendingBytes;
    this.#handle = handle;
    this.#size = size;
  }

  /** Appends a line, which ends with a line break. */
  readonly write = (line: string): void => {
    if (this.#isClosed || this.#pendingBytes + line.length > this.#maxPendingBytes) {
      this.#options.metrics.lose(1);
      return;
    }
    this.#pending.push(line);
    this.#pendingBytes += line.length;
    this.#flushing ??= this.#flush();
  };

  /** Writes the pending lines and closes the file. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#flushing;
    await this.#handle.close();
  }

  async #flush(): Promise<void> {
    // Lets the lines of the current turn join the batch.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#pending.length > 0) {
      const lines = this.#pending;
      this.#pending = [];
      try {
        const isRotated = await this.#append(Buffer.from(lines.join("")));
        this.#isFailing &&= !isRotated;
      } catch (error) {
        this.#options.metrics.lose(lines.length);
        this.#report(error);
      }
      this.#pendingBytes = this.#pending.reduce((sum, line) => sum + line.length, 0);
    }
    this.#flushing = undefined;
  }

  /** Returns false if the file was due to be rotated and could not be. */
  async #append(batch: Buffer): Promise<boolean> {
    const isRotated = this.#size === 0 || this.#size + batch.length <= this.#maxBytes || (await this.#rotate());
    try {
      await this.#handle.appendFile(batch);
      this.#size += batch.length;
    } catch (error) {
      // A batch that was written in part would leave a torn line.
      await this.#truncate().catch(() => undefined);
      throw error;
    }
    return isRotated;
  }

  /** Removes what a failed write left. The file may be smaller than expected: `logrotate` with `copytruncate` empties it. */
  async #truncate(): Promise<void> {
    const { size } = await this.#handle.stat();
    this.#size = Math.min(this.#size, size);
    if (size > this.#size) await this.#handle.truncate(this.#size);
  }

  /** Renames the file and starts a new one. If that fails, reports it and returns false: the log continues in the old one. */
  async #rotate(): Promise<boolean> {
    const { file, clock, metrics } = this.#options;
    try {
      await rename(file.path, await backupPath(file.path, clock.now())).catch(ignoreMissing);
      const next = await openFile(file.path);
      const previous = this.#handle;
      this.#handle = next;
      this.#size = 0;
      await previous.close();
      this.#size = await continued(next, metrics);
      // The file was rotated: only the deletion of old ones has failed.
      await pruneBackups(file, clock.now()).catch((error: unknown) => this.#report(error));
      return true;
    } catch (error) {
      this.#report(error);
      return false;
    }
  }

  #report(error: unknown): void {
    if (!this.#isFailing) this.#options.onError(error);
    this.#isFailing = true;
  }
}

/** Returns the size of a file. A last line that a crash tore is ended and counted as a lost event. */
async function continued(handle: FileHandle, metrics: AuditMetrics): Promise<number> {
  const { size } = await handle.stat();
  if (size === 0) return 0;
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
  if (bytesRead === 0 || buffer[0] === lineBreak) return size;
  metrics.lose(1);
  await handle.appendFile("\n");
  return size + 1;
}

/** The log was moved away, or an earlier rotation failed after it renamed the file. */
function ignoreMissing(error: unknown): void {
  if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
}

function openFile(path: string): Promise<FileHandle> {
  return open(path, "a+", 0o600);
}
