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
    return new AuditLog(options, handle, (await handle.stat()).size);
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
        await this.#append(Buffer.from(lines.join("")));
        this.#isFailing = false;
      } catch (error) {
        this.#options.metrics.lose(lines.length);
        if (!this.#isFailing) this.#options.onError(error);
        this.#isFailing = true;
      }
      this.#pendingBytes = this.#pending.reduce((sum, line) => sum + line.length, 0);
    }
    this.#flushing = undefined;
  }

  async #append(batch: Buffer): Promise<void> {
    if (this.#size > 0 && this.#size + batch.length > this.#maxBytes) await this.#rotate().catch(this.#options.onError);
    try {
      await this.#handle.appendFile(batch);
      this.#size += batch.length;
    } catch (error) {
      // A batch that was written in part would leave a torn line.
      await this.#handle.truncate(this.#size).catch(() => undefined);
      throw error;
    }
  }

  /** Renames the file and starts a new one. If that fails, the log continues in the old one. */
  async #rotate(): Promise<void> {
    const { file, clock, onError } = this.#options;
    await rename(file.path, await backupPath(file.path, clock.now()));
    const previous = this.#handle;
    this.#handle = await openFile(file.path);
    this.#size = 0;
    await previous.close();
    await pruneBackups(file, clock.now()).catch(onError);
  }
}

function openFile(path: string): Promise<FileHandle> {
  return open(path, "a", 0o600);
}
