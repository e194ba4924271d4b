import { randomBytes } from "node:crypto";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** What an agent needs to start: its locks and directories. */
const reserveBytes = 256 * 1024;

/**
 * Opens files on a disk that may be full: `file` reserves space, which is freed if `open` fails for lack of space. `open` is then called once more, and the
 * space is reserved again if possible. A robot whose disk is full therefore supervises its programs after its agent was restarted.
 */
export async function openWithReserve<T>(file: string, open: () => Promise<T>): Promise<T> {
  const opened = await openOrRelease(file, open);
  // Without the reserve, everything works until the next start.
  await reserve(file).catch(() => {});
  return opened;
}

async function openOrRelease<T>(file: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (!isOutOfSpace(error) || !(await isReserved(file))) throw error;
    await rm(file, { force: true });
    return await open();
  }
}

async function reserve(file: string): Promise<void> {
  if (await isReserved(file)) return;
  await mkdir(dirname(file), { recursive: true });
  try {
    // A file system may store zeros without using space.
    await writeFile(file, randomBytes(reserveBytes), { mode: 0o600 });
  } catch (error) {
    // A part of it would leave nothing for the running agent.
    await rm(file, { force: true });
    throw error;
  }
}

const isReserved = async (file: string): Promise<boolean> => (await stat(file).catch(() => undefined))?.size === reserveBytes;

/** Whether an error, or one that caused it, is that a disk or a quota is full. */
function isOutOfSpace(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ("code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT")) || isOutOfSpace(error.cause);
}
