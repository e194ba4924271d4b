import { setImmediate as nextTurn } from "node:timers/promises";
import type { Engine } from "../database/engine.ts";
import { isStorageError } from "../storage-error.ts";
import { type BackupSummary, BackupWriter } from "./backup-file.ts";
import type { ControlHandlers } from "./control-folder.ts";

/** Objects or events per turn of the event loop. */
const slice = 500;

/** What the owner of a directory finds when it reads everything. */
export interface OnlineReport {
  readonly revision: number;
  readonly objects: number;
  readonly events: number;
  /** What could not be read. */
  readonly faults: readonly string[];
}

/** Handlers for the requests of other processes on an open engine. */
export function onlineHandlers(engine: Engine): ControlHandlers {
  return { backup: (path) => backupOpen(engine, path), verify: () => verifyOpen(engine) };
}

/** Writes the current state of an open engine to a new file, in slices that yield to the event loop. */
async function backupOpen(engine: Engine, path: string): Promise<BackupSummary> {
  const { revision } = engine.position;
  const held = engine.pin();
  try {
    const writer = new BackupWriter(path);
    try {
      let count = 0;
      for (const entry of held.range("", undefined)) {
        writer.add(entry);
        if (++count % slice === 0) await nextTurn();
      }
      return await writer.finish(revision);
    } catch (error) {
      writer.discard();
      throw error;
    }
  } finally {
    held.release();
  }
}

/** Reads all objects and events of an open engine, which checks their checksums. */
async function verifyOpen(engine: Engine): Promise<OnlineReport> {
  const { revision, compacted } = engine.position;
  const held = engine.pin();
  const faults: string[] = [];
  const countAll = async (entries: Iterable<unknown>): Promise<number> => {
    let count = 0;
    try {
      for (const _ of entries) if (++count % slice === 0) await nextTurn();
    } catch (error) {
      if (!isStorageError(error, "Damaged")) throw error;
      faults.push(error.message);
    }
    return count;
  };
  try {
    const objects = await countAll(held.range("", undefined));
    return { revision, objects, events: await countAll(held.log(compacted)), faults };
  } finally {
    held.release();
  }
}
