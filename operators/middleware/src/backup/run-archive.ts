import { type Clock, sleep } from "@keelson/api-machinery/time";
import { BackupError } from "./backup-error.ts";
import type { LogStore } from "./log-store.ts";
import type { SnapshotClient } from "./snapshot-client.ts";

const [firstBackoffMs, maxBackoffMs] = [1_000, 30_000];

/** Options of {@link runArchive}. */
export interface ArchiveOptions {
  readonly openStore: () => Promise<LogStore>;
  readonly connect: () => SnapshotClient;
  /** Files that were archived before each of these are deleted. Default: none. */
  readonly keepFrom?: readonly string[];
  readonly clock: Clock;
  readonly onMessage: (message: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Archives the log of a program until the signal fires: reads a file, stores it durably, confirms it. A file is confirmed only after it was
 * stored, and one that was stored and not confirmed is read again and compared. So this may end at any point.
 */
export async function runArchive(options: ArchiveOptions): Promise<void> {
  const { clock, signal, onMessage } = options;
  let backoffMs = firstBackoffMs;
  while (!signal.aborted) {
    const client = options.connect();
    try {
      await archive(client, options, () => {
        backoffMs = firstBackoffMs;
      });
    } catch (error) {
      if (signal.aborted) return;
      onMessage(`${(error as Error).message}; retrying in ${backoffMs / 1_000} s`);
      await sleep(clock, backoffMs, signal).catch(() => undefined);
      backoffMs = Math.min(backoffMs * 2, maxBackoffMs);
    } finally {
      client.close();
    }
  }
}

async function archive(
  client: SnapshotClient,
  { openStore, keepFrom, onMessage, signal }: ArchiveOptions,
  onStored: () => void,
): Promise<void> {
  const store = await openStore();
  const deleted = keepFrom === undefined ? 0 : await store.deleteBefore(keepFrom);
  if (deleted > 0) onMessage(`deleted ${deleted} log files that no backup needs`);
  for (;;) {
    const { file, missing } = await nextFile(client, signal);
    if (missing !== undefined) onMessage(missing);
    const chunks: Uint8Array[] = [];
    for await (const chunk of file.data) chunks.push(chunk);
    await store.put(file.name, Buffer.concat(chunks));
    await client.confirmLog(file.cursor, missing === undefined ? undefined : file.name);
    onStored();
    onMessage(`archived ${file.name}`);
  }
}

/** The next file. Log that no longer exists is skipped: what follows would be lost too. The agent reports that. */
async function nextFile(client: SnapshotClient, signal: AbortSignal) {
  try {
    return { file: await client.readLog(false, signal), missing: undefined };
  } catch (error) {
    if (!(error instanceof BackupError) || error.code !== "Damaged") throw error;
    return { file: await client.readLog(true, signal), missing: error.message };
  }
}
