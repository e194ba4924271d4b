import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import type { Sandbox } from "../../api/sandbox.ts";
import type { VolumeMount } from "../../volumes/volume-mount.ts";

/** A create in progress: enough to complete or undo it after a crash. */
export interface Intent {
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  readonly agent: string;
  readonly node: string;
  readonly spec: Sandbox["spec"];
  readonly labels: Readonly<Record<string, string>>;
  readonly requestId?: string;
  readonly volumes?: readonly VolumeMount[];
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The sandbox was deleted before its object was written: it must be undone. */
  readonly isDeleted?: boolean;
}

/** Size above which the file is rewritten with unfinished intents only. */
const defaultMaxLogBytes = 4 << 20;

interface QueuedWrite {
  readonly intent: Intent;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A write-ahead log of unfinished intents. **Guarantees**: an intent is on disk when `write` resolves; a line truncated by a crash is
 * dropped; concurrent writes share one sync; the file stays small.
 */
export class IntentLog {
  /** Intents that were unfinished when the log was opened. */
  readonly pending: readonly Intent[];
  readonly #path: string;
  readonly #maxBytes: number;
  readonly #unfinished: Map<string, Intent>;
  #file: FileHandle | undefined;
  #sizeBytes = 0;
  #queue: QueuedWrite[] = [];
  #finished: string[] = [];
  #running: Promise<void> | undefined;

  private constructor(path: string, maxBytes: number, unfinished: Map<string, Intent>) {
    this.#path = path;
    this.#maxBytes = maxBytes;
    this.#unfinished = unfinished;
    this.pending = [...unfinished.values()];
  }

  /** Opens the log, creating the file if needed, and rewrites it without finished intents. */
  static async open(path: string, maxBytes: number = defaultMaxLogBytes): Promise<IntentLog> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const log = new IntentLog(path, maxBytes, readLines(await readFile(path, "utf8").catch(() => "")));
    await log.#rewrite();
    return log;
  }

  /** Records an intent. Resolves when it is on disk. */
  write(intent: Intent): Promise<void> {
    this.#unfinished.set(intent.sandboxId, intent);
    return new Promise((resolve, reject) => {
      this.#queue.push({ intent, resolve, reject });
      this.#running ??= this.#flush();
    });
  }

  /**
   * Marks an intent as finished. Written with the next intent: after a crash before that, recovery finds that nothing is left to do.
   */
  finish(sandboxId: string): void {
    this.#unfinished.delete(sandboxId);
    // Even if it was finished before: a concurrent write may have appended the intent after its first done line.
    this.#finished.push(sandboxId);
  }

  async close(): Promise<void> {
    await this.#running;
    if (this.#finished.length > 0) await this.#append([]);
    await this.#file?.close();
  }

  async #flush(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      try {
        await this.#append(batch.map(({ intent }) => intent));
        for (const each of batch) each.resolve();
      } catch (error) {
        for (const each of batch) {
          this.#unfinished.delete(each.intent.sandboxId);
          each.reject(error);
        }
      }
    }
    this.#running = undefined;
  }

  async #append(batch: readonly Intent[]): Promise<void> {
    const lines = [...this.#finished.splice(0).map((done) => lineOf({ done })), ...batch.map(lineOf)];
    if (this.#sizeBytes > this.#maxBytes) return this.#rewrite();
    const text = lines.join("");
    this.#sizeBytes += text.length;
    await this.#file?.appendFile(text);
  }

  /** Replaces the file by one with the unfinished intents only. */
  async #rewrite(): Promise<void> {
    const path = `${this.#path}.new`;
    // O_DSYNC makes each write durable without a separate sync.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND | constants.O_DSYNC;
    const next = await open(path, flags, 0o600);
    try {
      const text = [...this.#unfinished.values()].map(lineOf).join("");
      await next.writeFile(text);
      await rename(path, this.#path);
      await syncFolder(dirname(this.#path));
      this.#sizeBytes = text.length;
    } catch (error) {
      await next.close();
      throw error;
    }
    const old = this.#file;
    this.#file = next;
    await old?.close();
  }
}

const lineOf = (value: unknown): string => `${JSON.stringify(value)}\n`;

function readLines(text: string): Map<string, Intent> {
  const pending = new Map<string, Intent>();
  for (const line of text.split("\n")) {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      continue;
    }
    if (!isJsonObject(value)) continue;
    if (typeof value.done === "string") pending.delete(value.done);
    else if (typeof value.sandboxId === "string" && isJsonObject(value.spec)) {
      pending.set(value.sandboxId, value as unknown as Intent);
    }
  }
  return pending;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
