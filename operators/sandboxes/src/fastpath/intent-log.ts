import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import type { Sandbox } from "../api/sandbox.ts";

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
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The sandbox was deleted before its object was written: it must be undone. */
  readonly isDeleted?: boolean;
}

/**
 * A write-ahead log of unfinished intents. **Guarantees**: an intent is on disk when `write` resolves; a line truncated by a crash is
 * dropped; concurrent writes share one sync; the file stays small.
 */
export interface IntentLog {
  /** Intents that were unfinished when the log was opened. */
  readonly pending: readonly Intent[];
  write(intent: Intent): Promise<void>;
  /**
   * Marks an intent as finished. Written with the next intent: after a crash before that, recovery finds that nothing is left to do.
   */
  finish(sandboxId: string): void;
  close(): Promise<void>;
}

/** Size above which the file is rewritten with unfinished intents only. */
const defaultMaxLogBytes = 4 << 20;

const readLines = (text: string): Map<string, Intent> => {
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
};

/** Opens the log, creating the file if needed, and rewrites it without finished intents. */
export async function openIntentLog(path: string, maxBytes: number = defaultMaxLogBytes): Promise<IntentLog> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const pending = readLines(await readFile(path, "utf8").catch(() => ""));
  const found = [...pending.values()];
  let size = 0;
  const lineOf = (value: unknown): string => `${JSON.stringify(value)}\n`;

  /** Rewrites the file with the unfinished intents. */
  async function rewrite(): Promise<FileHandle> {
    // O_DSYNC makes each write durable without a separate sync.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND | constants.O_DSYNC;
    const next = await open(`${path}.new`, flags, 0o600);
    try {
      const text = [...pending.values()].map(lineOf).join("");
      await next.writeFile(text);
      await rename(`${path}.new`, path);
      await syncFolder(dirname(path));
      size = text.length;
      return next;
    } catch (error) {
      await next.close();
      throw error;
    }
  }

  let file = await rewrite();
  let queue: { readonly intent: Intent; readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
  let finished: string[] = [];
  let running: Promise<void> | undefined;

  async function put(batch: readonly Intent[]): Promise<void> {
    const lines = [...finished.splice(0).map((done) => lineOf({ done })), ...batch.map(lineOf)];
    if (size <= maxBytes) {
      const text = lines.join("");
      size += text.length;
      await file.appendFile(text);
      return;
    }
    const old = file;
    file = await rewrite();
    await old.close();
  }

  async function flush(): Promise<void> {
    while (queue.length > 0) {
      const batch = queue;
      queue = [];
      try {
        await put(batch.map(({ intent }) => intent));
        for (const each of batch) each.resolve();
      } catch (error) {
        for (const each of batch) {
          pending.delete(each.intent.sandboxId);
          each.reject(error);
        }
      }
    }
    running = undefined;
  }

  return {
    pending: found,
    write(intent) {
      pending.set(intent.sandboxId, intent);
      return new Promise((resolve, reject) => {
        queue.push({ intent, resolve, reject });
        running ??= flush();
      });
    },
    finish(sandboxId) {
      if (pending.delete(sandboxId)) finished.push(sandboxId);
    },
    async close() {
      await running;
      if (finished.length > 0) await put([]);
      await file.close();
    },
  };
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
