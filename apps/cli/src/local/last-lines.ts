import { open } from "node:fs/promises";

const chunkBytes = 64 * 1024;
const newline = 10;

/** The offset at which the last `count` lines of a file start. Reads backwards, so that the size of the file does not matter. */
export async function lastLinesOffset(path: string, count: number): Promise<number> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (count === 0) return size;
    const buffer = Buffer.alloc(chunkBytes);
    let left = count;
    // The newline that ends the last line starts no other one.
    for (let end = size - 1; end > 0; end -= chunkBytes) {
      const start = Math.max(0, end - chunkBytes);
      const { bytesRead } = await file.read(buffer, 0, end - start, start);
      for (let index = bytesRead - 1; index >= 0; index--) {
        if (buffer[index] !== newline) continue;
        left -= 1;
        if (left === 0) return start + index + 1;
      }
    }
    return 0;
  } finally {
    await file.close();
  }
}
