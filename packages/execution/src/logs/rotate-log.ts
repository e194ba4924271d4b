import { constants } from "node:fs";
import { copyFile, open, rename, rm, stat, truncate } from "node:fs/promises";

/** Limits of a log's size. */
export interface RotationPolicy {
  readonly maxBytes: number;
  /** Number of files, including the current one. */
  readonly maxFiles: number;
}

const chunkBytes = 1 << 20;

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

/** Copies the last `bytes` of a file; uses `copyFile` for a whole file, which lets the file system share blocks. */
async function copyEnd(from: string, to: string, bytes: number): Promise<void> {
  const size = await sizeOf(from);
  if (size <= bytes) return copyFile(from, to, constants.COPYFILE_FICLONE);
  await using source = await open(from, "r");
  await using target = await open(to, "w", 0o640);
  const chunk = Buffer.allocUnsafe(Math.min(bytes, chunkBytes));
  for (let done = 0; done < bytes; ) {
    const { bytesRead } = await source.read(chunk, 0, Math.min(chunk.length, bytes - done), size - bytes + done);
    if (bytesRead === 0) break;
    await target.write(chunk, 0, bytesRead);
    done += bytesRead;
  }
}

/**
 * Rotates one log by copy and truncate if it exceeds the policy; resolves to whether it did. The program holds the file open for appending,
 * so it continues at the start of the truncated file. Output written between the copy and the truncation is lost. Of a log far above
 * the limit the end is kept. On a full disk the log is truncated without a copy. Rejects if the log cannot be truncated.
 */
export async function rotateIfLarge(path: string, policy: RotationPolicy): Promise<boolean> {
  if ((await sizeOf(path)) <= policy.maxBytes) return false;
  const draft = `${path}.new`;
  try {
    for (let index = policy.maxFiles - 1; index > 1; index--) {
      if ((await sizeOf(`${path}.${index - 1}`)) > 0) await rename(`${path}.${index - 1}`, `${path}.${index}`);
    }
    if (policy.maxFiles > 1) {
      // Readers recognize a rotation by the new file, which must be complete by then.
      await copyEnd(path, draft, policy.maxBytes);
      await rename(draft, `${path}.1`);
    }
  } catch {
    await rm(draft, { force: true });
  }
  await truncate(path, 0);
  return true;
}

/**
 * Rotates logs one after another, so that programs that flood their logs occupy one thread of the pool and never the event loop. Each log
 * waits for at most one rotation, which bounds the queue.
 */
export class LogRotations {
  readonly #rotate: typeof rotateIfLarge;
  #last: Promise<unknown> = Promise.resolve();

  /** `rotate` is replaceable in tests. */
  constructor(rotate = rotateIfLarge) {
    this.#rotate = rotate;
  }

  /** {@link rotateIfLarge} once the earlier ones have ended. */
  rotate(path: string, policy: RotationPolicy): Promise<boolean> {
    const rotated = this.#last.then(() => this.#rotate(path, policy));
    this.#last = rotated.catch(() => {});
    return rotated;
  }
}
