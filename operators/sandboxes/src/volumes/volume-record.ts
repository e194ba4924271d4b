import { readFile } from "node:fs/promises";
import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";
import { writeFileAtomic } from "@keelson/execution/files";
import type { IdRange } from "./volume-owner.ts";

/** What an agent keeps about a volume, beside it. */
export interface VolumeRecord {
  readonly sizeBytes: number;
  /** Folder of the agent that used it last. Programs of that agent may have it mounted as long as the folder exists. */
  readonly agentDir: string;
  /** Ids that own its files: those of the last sandbox that could write to it, and during a change those of the next one. */
  readonly owners: readonly IdRange[];
}

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
  const { sizeBytes, agentDir, owners } = value;
  if (!isCount(sizeBytes) || typeof agentDir !== "string" || !Array.isArray(owners) || !owners.every(isRange)) return undefined;
  return { sizeBytes, agentDir, owners: owners as unknown as readonly IdRange[] };
}

/** Writes a record durably. */
export const writeRecord = (path: string, record: VolumeRecord): Promise<void> =>
  writeFileAtomic(path, JSON.stringify(record), { durable: true });
