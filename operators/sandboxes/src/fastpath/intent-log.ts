import { mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import type { Sandbox } from "../api/sandbox.ts";

/** What the fast path was about to do: enough to finish it or to undo it. */
export interface Intent {
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  readonly agent: string;
  readonly node: string;
  readonly spec: Sandbox["spec"];
  readonly labels: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** It was deleted before the API knew of it: nothing of it may be left. */
  readonly isDeleted?: boolean;
}

/**
 * A log on disk of intents that are not finished. **Guarantees**: what `write` was given is on the disk when it resolves; a line
 * that was cut off by a crash is dropped; writes that come together share one sync.
 */
export interface IntentLog {
  /** What was open when the log was. */
  readonly pending: readonly Intent[];
  write(intent: Intent): Promise<void>;
  /** Notes that nothing is left to do for an id. */
  finish(sandboxId: string): Promise<void>;
  close(): Promise<void>;
}

/** Lines above which the log is written anew when it is opened next. */
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

/** Opens the log in a file, which is made when it is not there, and writes it anew without what is finished. */
export async function openIntentLog(path: string): Promise<IntentLog> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const pending = readLines(await readFile(path, "utf8").catch(() => ""));
  const file = await open(`${path}.new`, "w", 0o600);
  await file.writeFile([...pending.values()].map((intent) => `${JSON.stringify(intent)}\n`).join(""));
  await file.sync();
  await rename(`${path}.new`, path);

  let queue: { readonly line: string; readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
  let running: Promise<void> | undefined;
  const flush = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue;
      queue = [];
      try {
        await file.appendFile(batch.map((each) => each.line).join(""));
        await file.datasync();
        for (const each of batch) each.resolve();
      } catch (error) {
        for (const each of batch) each.reject(error);
      }
    }
    running = undefined;
  };
  const append = (value: unknown): Promise<void> =>
    new Promise((resolve, reject) => {
      queue.push({ line: `${JSON.stringify(value)}\n`, resolve, reject });
      running ??= flush();
    });
  return {
    pending: [...pending.values()],
    write: append,
    finish: (sandboxId) => append({ done: sandboxId }),
    async close() {
      await running;
      await file.close();
    },
  };
}
