import { statfs } from "node:fs/promises";
import { storageFull } from "../storage-error.ts";

/** Codes of LMDB (lmdb.h) and the operating system (errno.h of Linux and macOS) for a lack of space. */
const fullCodes: ReadonlySet<unknown> = new Set([
  -30_792, // MDB_MAP_FULL
  27, // EFBIG
  28, // ENOSPC
  69, // EDQUOT on macOS
  122, // EDQUOT on Linux
]);

/** The errno of a partial write (EIO), which LMDB reports both at the end of a disk and for a broken disk. */
const partialWrite = 5;
/** With less space than this left, a partial write means that the disk is full. */
const fullBytes = 1024 * 1024;

/** Why a commit failed. LMDB passes the reason as a promise that rejects with it. */
export async function failureOf(error: unknown, dir: string): Promise<unknown> {
  if (!(error instanceof Error) || !("commitError" in error)) return error;
  const cause = await Promise.resolve(error.commitError).catch((reason: unknown) => reason);
  if (!(cause instanceof Error) || !("code" in cause)) return error;
  const isFull = fullCodes.has(cause.code) || (cause.code === partialWrite && (await spaceLeft(dir)) < fullBytes);
  return isFull ? storageFull(cause) : cause;
}

async function spaceLeft(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
