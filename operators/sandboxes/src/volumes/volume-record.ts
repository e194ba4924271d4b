import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";
import { writeFileAtomic } from "@keelson/execution/files";
import { VolumeError } from "./volume-error.ts";
import type { IdRange } from "./volume-owner.ts";

/** What an agent keeps about a volume, alongside it. */
export interface VolumeRecord {
  readonly sizeBytes: number;
  /** Directory of the agent that used it last. Programs of that agent may have it mounted as long as the directory exists. */
  readonly agentDir: string;
  /** Ids that own its files: those of the last sandbox that could write to it, and during a change those of the next one. */
  readonly owners: readonly IdRange[];
  /** Whether its file system is being changed while it is not mounted. If that is interrupted, it must be repaired. */
  readonly isGrowing?: true;
}

/** The file with the file system of the volume in a directory. */
export const imageOf = (folder: string): string => join(folder, "volume.img");

/** The file with the record of the volume in a directory. */
export const recordOf = (folder: string): string => join(folder, "volume.json");

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

const isRange = (value: unknown): boolean => isJsonObject(value) && isCount(value.first) && isCount(value.size);

/** Reads a record; undefined if it is missing or damaged. **Errors**: rejects if the file cannot be read: the volume may be in use. */
export async function readRecord(path: string): Promise<VolumeRecord | undefined> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  });
  const value = text === undefined ? undefined : parseJsonObject(text);
  if (value === undefined) return undefined;
  const { sizeBytes, agentDir, owners, isGrowing } = value;
  if (!isCount(sizeBytes) || typeof agentDir !== "string" || !Array.isArray(owners) || !owners.every(isRange)) return undefined;
  const record = { sizeBytes, agentDir, owners: owners as unknown as readonly IdRange[] };
  return isGrowing === true ? { ...record, isGrowing } : record;
}

/** The record of the volume in a directory. **Errors**: {@link VolumeError} if it is missing or damaged. */
export async function requireRecord(folder: string): Promise<VolumeRecord> {
  const record = await readRecord(recordOf(folder));
  if (record === undefined) throw new VolumeError("Failed", `the record of the volume is damaged: ${recordOf(folder)}`);
  return record;
}

/** The sizes of volumes in bytes, by id, without those whose record cannot be read. `dir`: the directory of the volumes. */
export async function readSizes(dir: string, ids: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const sizes = ids.map(async (id) => {
    const record = await readRecord(recordOf(join(dir, id))).catch(() => undefined);
    return record === undefined ? [] : [[id, record.sizeBytes] as const];
  });
  return Object.fromEntries((await Promise.all(sizes)).flat());
}

/** Writes a record durably. */
export const writeRecord = (path: string, record: VolumeRecord): Promise<void> =>
  writeFileAtomic(path, JSON.stringify(record), { durable: true });
