import { readFileSync } from "node:fs";
import { open } from "node:fs/promises";

async function readEnd(path: string, bytes: number): Promise<Buffer> {
  try {
    const handle = await open(path, "r");
    try {
      const { size } = await handle.stat();
      const length = Math.min(bytes, size);
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, size - length);
      return buffer.subarray(0, bytesRead);
    } finally {
      await handle.close();
    }
  } catch {
    return Buffer.alloc(0);
  }
}

/**
 * Reads the last `bytes` bytes of a log as text, continuing into its rotated file if needed. Never starts inside a
 * UTF-8 character; missing files read as empty.
 */
export async function readLogTail(path: string, bytes: number): Promise<string> {
  let tail = await readEnd(path, bytes);
  if (tail.length < bytes) tail = Buffer.concat([await readEnd(`${path}.1`, bytes - tail.length), tail]);
  let start = 0;
  // Continuation bytes of a truncated character; at most three.
  while (tail.length === bytes && start < 3 && ((tail[start] ?? 0) & 0xc0) === 0x80) start++;
  return tail.toString("utf8", start);
}

/** Reads the last line of a file, at most 300 characters; empty if the file cannot be read. */
export function readLastLine(path: string): string {
  try {
    return (readFileSync(path, "utf8").trim().split("\n").at(-1) ?? "").slice(0, 300);
  } catch {
    return "";
  }
}
