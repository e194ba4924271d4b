import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";

/** Larger files are not read: an image can contain any. Enough for about 4,000 accounts; the files of images have fewer than 100. */
const maxBytes = 256 * 1024;

/**
 * The text of a passwd(5) or group(5) file; empty if it does not exist, is not a regular file or exceeds 256 KiB. Does not block: in a
 * writable root the program may have replaced the file.
 */
export function readAccountFile(path: string): string {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return "";
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile() || stat.size > maxBytes) return "";
    const buffer = Buffer.alloc(stat.size);
    return buffer.toString("utf8", 0, readSync(descriptor, buffer));
  } finally {
    closeSync(descriptor);
  }
}
