import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Batch, Position } from "../database/engine.ts";
import { LmdbEngine } from "../database/lmdb-engine.ts";
import { HighWaterMark, highWaterMarkName } from "../integrity/high-water-mark.ts";
import { databaseName } from "../integrity/inspection.ts";
import { Journal, journalFileNames } from "../journal/journal.ts";
import type { BackupEntry } from "./backup-file.ts";
import { readBackup } from "./backup-file.ts";
import type { ProgressOptions } from "./backup.ts";

/** The files of a data directory that hold data. */
const dataFiles = [highWaterMarkName, databaseName, ...journalFileNames];

/** Whether a directory has data. */
export function hasData(dir: string): boolean {
  return dataFiles.some((name) => existsSync(join(dir, name)));
}

/**
 * Replaces the data of a directory with the objects of a backup at `revision`. Events are dropped, so that watches from older revisions
 * expire. The old files, if there are any, are kept in a new directory alongside it, whose path is returned.
 *
 * **Guarantees**: after a crash at any point the directory either has its old data, or does not open until this is repeated, or has the new
 * data.
 */
export async function replaceData(
  dir: string,
  backup: string,
  revision: number,
  { onProgress }: ProgressOptions = {},
): Promise<string | undefined> {
  const next = mkdtempSync(join(dirname(dir), `${basename(dir)}.new-`));
  try {
    await writeFolder(next, backup, { revision, compacted: revision }, onProgress);
    const kept = hasData(dir) ? keepFiles(dir) : undefined;
    // The mark comes first: with it, old or missing data counts as damage. Then the database, which supersedes old journals.
    for (const name of dataFiles) renameSync(join(next, name), join(dir, name));
    flushFolder(dir);
    return kept;
  } finally {
    rmSync(next, { recursive: true, force: true });
  }
}

async function writeFolder(
  dir: string,
  backup: string,
  position: Position,
  onProgress?: (objects: number) => void,
): Promise<void> {
  const mark = new HighWaterMark(dir, { revision: position.revision, isFlushed: true, now: () => 0 });
  await mark.close();
  await new Journal({ dir }).close();
  const database = new LmdbEngine({ dir, sync: true });
  try {
    const parts: (readonly BackupEntry[])[] = [];
    readBackup(backup, (entries) => void parts.push(entries));
    let done = 0;
    for (const objects of parts) {
      await database.commit(batchOf(objects, position));
      done += objects.length;
      onProgress?.(done);
    }
    await database.commit(batchOf([], position));
    await database.seal(() => undefined);
  } finally {
    await database.close();
  }
}

function batchOf(objects: readonly BackupEntry[], position: Position): Batch {
  return { objects, log: [], position, dropAfter: position.compacted };
}

/** Links the files of a directory into a new one alongside it. */
function keepFiles(dir: string): string {
  let kept = `${dir}.replaced`;
  for (let number = 2; existsSync(kept); number++) kept = `${dir}.replaced-${number}`;
  mkdirSync(kept, { mode: 0o700 });
  for (const name of readdirSync(dir)) if (dataFiles.includes(name)) linkSync(join(dir, name), join(kept, name));
  flushFolder(kept);
  return kept;
}

/** Flushes the entries of a directory to disk. */
export function flushFolder(dir: string): void {
  const folder = openSync(dir, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
