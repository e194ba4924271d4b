import type { MeasureDiskUsage } from "./disk-usage.ts";

/** The time limit for counting the files of an image. */
const timeoutMs = 60_000;

/**
 * The bytes below a directory that the node wrote for a container, before it starts. Undefined if they cannot be measured, which must not keep the
 * container from its writable root. If there are too many files, the result is 0: otherwise such an image would escape the Pod's limits.
 */
export async function measureOwnBytes(measure: MeasureDiskUsage, folder: string): Promise<number | undefined> {
  try {
    const { measured, slowest } = await measure([folder], timeoutMs);
    return measured.get(folder)?.bytes ?? (slowest === folder ? 0 : undefined);
  } catch {
    return undefined;
  }
}

/** The contents of a marker for these bytes. */
export function formatOwnBytes(bytes: number | undefined): string {
  return bytes === undefined ? "" : String(bytes);
}

/** The bytes in a marker; undefined if they could not be measured, or an earlier version wrote the marker. */
export function parseOwnBytes(text: string): number | undefined {
  return /^\d+$/.test(text) ? Number(text) : undefined;
}
