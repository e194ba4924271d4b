import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { ImageError } from "./image-error.ts";
import { hexOf } from "./image-manifest.ts";
import type { Descriptor } from "./image-manifest.ts";
import type { RegistryClient } from "./registry-client.ts";

/** Maximum consecutive transfer failures without progress. */
const maxFailures = 4;

const firstPauseMs = 500;

/**
 * Downloads a blob of an image into a file. An interrupted transfer is resumed; a complete blob that does not match its digest is
 * downloaded once more. Throws an {@link ImageError}.
 */
export async function downloadBlob(
  get: RegistryClient,
  { digest, size }: Descriptor,
  path: string,
  options: {
    /** Called with the number of received bytes; negative if received bytes are discarded. */
    readonly onBytes: (bytes: number) => void;
    readonly pause?: (ms: number) => Promise<void>;
    readonly signal?: AbortSignal;
  },
): Promise<void> {
  const { onBytes, pause, signal } = options;
  const file = await open(path, "w");
  try {
    let received = 0;
    let hash = createHash("sha256");
    const restart = async (): Promise<void> => {
      onBytes(-received);
      received = 0;
      hash = createHash("sha256");
      await file.truncate(0);
    };
    let wasDamaged = false;
    let furthest = 0;
    for (let failures = 0; ; ) {
      const response = await get(`blobs/${digest}`, received > 0 ? { from: received } : {});
      if (received > 0 && response.status !== 206) await restart();
      let cause: unknown;
      try {
        for await (const chunk of response.body ?? []) {
          const bytes = chunk as Uint8Array;
          if (received + bytes.length > size) throw new ImageError("Invalid", `${digest} is longer than its ${size} bytes`);
          await file.write(bytes, 0, bytes.length, received);
          hash.update(bytes);
          received += bytes.length;
          onBytes(bytes.length);
        }
      } catch (error) {
        signal?.throwIfAborted();
        // Disk errors are final; a broken connection is retried.
        if (error instanceof ImageError || isDiskError(error)) throw error;
        cause = error;
      }
      if (received === size && hash.copy().digest("hex") === hexOf(digest)) return;
      const isDamaged = received === size;
      failures = received > furthest && !isDamaged ? 1 : failures + 1;
      furthest = Math.max(furthest, received);
      if (failures >= maxFailures || (isDamaged && wasDamaged)) {
        throw new ImageError("Invalid", `${digest} was damaged or truncated in transfer`, { cause });
      }
      wasDamaged ||= isDamaged;
      if (isDamaged) await restart();
      await pause?.(firstPauseMs * 2 ** (failures - 1));
    }
  } finally {
    await file.close();
  }
}

/** Whether an error came from writing the file. */
const isDiskError = (error: unknown): boolean =>
  typeof error === "object" &&
  error !== null &&
  "syscall" in error &&
  (error.syscall === "write" || error.syscall === "ftruncate");
