import { statfs } from "node:fs/promises";

/** Log that the recovery and the running server write in the meantime. */
const reserveBytes = 64 * 1_048_576;

/** Why a volume has no room for a copy of the data; undefined if it has. A full volume would end the running server. */
export function spaceProblem(freeBytes: number, sizeBytes: number): string | undefined {
  const neededBytes = sizeBytes + reserveBytes;
  if (freeBytes >= neededBytes) return undefined;
  return `the volume has ${freeBytes} free bytes, and the data needs ${neededBytes} alongside that of the running server`;
}

/** Bytes that are free in the file system of a directory. */
export async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}
