import { statfs } from "node:fs/promises";
import type { DiskSpace } from "./thresholds.ts";

/** Reads the file system that holds `folder`. */
export async function readSpace(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize, ffree, files } = await statfs(folder);
  return {
    "nodefs.available": { free: bavail * bsize, capacity: blocks * bsize },
    "nodefs.inodesFree": { free: ffree, capacity: files },
  };
}
