import {
  chmodSync,
  closeSync,
  constants,
  createReadStream,
  fchmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { Parser } from "tar";
import type { ReadEntry } from "tar";
import { ImageError } from "./image-error.ts";

const whiteout = ".wh.";
const opaque = ".wh..wh..opq";

const invalid = (what: string): ImageError => new ImageError("Invalid", `the image is damaged: ${what}`);

/** The remaining budget of an image, counted down while its layers are unpacked. */
export interface UnpackLimits {
  bytes: number;
  entries: number;
}

/** The components of a path inside an archive. Throws if the path leaves the archive. */
function splitPath(path: string): readonly string[] {
  if (path.includes("\0")) throw invalid("a path has a NUL character");
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw invalid(`${JSON.stringify(path)} leads out of the image`);
  return parts;
}

/**
 * Unpacks one layer of an image, a tar archive (optionally gzipped), over a directory (OCI image specification, layer.md: changesets and
 * whiteouts). Streams the archive.
 *
 * **Guarantees**: nothing is written, linked or removed outside `root`: symbolic links in paths are not followed, hard links cannot point
 * to a symbolic link or outside, and devices are skipped. Files lose their set-uid bits.
 */
export async function unpackLayer(root: string, archive: string, limits: UnpackLimits): Promise<void> {
  let problem: unknown;
  const parser = new Parser({
    strict: true,
    // `limits` bounds the output; sparse disk images in layers compress to less than a thousandth.
    maxDecompressionRatio: Infinity,
    onReadEntry(entry) {
      try {
        if (problem !== undefined) {
          entry.resume();
          return;
        }
        limits.entries--;
        limits.bytes -= entry.size;
        if (limits.entries < 0 || limits.bytes < 0) {
          throw new ImageError("TooLarge", "the image exceeds the limit of bytes or files");
        }
        unpackEntry(root, entry, (error) => {
          problem ??= error;
        });
      } catch (error) {
        problem = error;
        entry.resume();
      }
    },
  });
  const ended = new Promise<void>((resolve, reject) => {
    parser.once("end", () => resolve());
    parser.once("error", (error) => reject(error));
  });
  // It may reject while the file is still being read.
  ended.catch(() => {});
  try {
    // Entries are consumed immediately, so the parser does not buffer.
    for await (const chunk of createReadStream(archive)) {
      parser.write(chunk as Buffer);
      if (problem !== undefined) break;
    }
    if (problem === undefined) {
      parser.end();
      await ended;
    }
  } catch (error) {
    problem ??= invalid(error instanceof Error ? error.message : String(error));
  }
  if (problem !== undefined) throw problem;
}

/** Unpacks one entry. `onError` receives errors that occur while a file's content arrives. */
function unpackEntry(root: string, entry: ReadEntry, onError: (error: unknown) => void): void {
  const parts = splitPath(entry.path);
  const name = parts.at(-1);
  if (name === undefined) {
    entry.resume();
    return;
  }
  const folder = makeFolders(root, parts.slice(0, -1));
  if (name === opaque) {
    for (const child of readdirSync(folder)) rmSync(join(folder, child), { recursive: true, force: true });
  } else if (name.startsWith(whiteout)) {
    const gone = name.slice(whiteout.length);
    if (gone === "" || gone === "." || gone === "..") throw invalid(`whiteout ${JSON.stringify(entry.path)} is not valid`);
    rmSync(join(folder, gone), { recursive: true, force: true });
  } else if (isFile.test(entry.type)) {
    writeFileEntry(join(folder, name), entry, onError);
    return;
  } else {
    createEntry(root, join(folder, name), entry);
  }
  entry.resume();
}

const isFile = /^(?:File|OldFile|ContiguousFile)$/;

/**
 * The mode of an unpacked file: everyone may read and execute what its owner may. Root of a program with a private user is another user
 * of the host, and the programs that have an image as their root may read all of it.
 */
const readableMode = (mode: number): number => (mode & 0o777) | ((mode & 0o500) >> 3) | ((mode & 0o500) >> 6);

/** Writes a file while it arrives. */
function writeFileEntry(path: string, entry: ReadEntry, onError: (error: unknown) => void): void {
  rmSync(path, { recursive: true, force: true });
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;
  const file = openSync(path, flags, 0o600);
  let failed = false;
  entry.on("data", (chunk) => {
    try {
      for (let at = 0; at < chunk.length && !failed; ) at += writeSync(file, chunk, at);
    } catch (error) {
      failed = true;
      onError(error);
    }
  });
  let closed = false;
  const close = (): void => {
    if (closed) return;
    closed = true;
    closeSync(file);
  };
  entry.once("end", () => {
    fchmodSync(file, readableMode((entry.mode ?? 0o644) | 0o400));
    close();
  });
  // A truncated archive does not end its last entry.
  entry.once("error", close);
}

/** Creates a directory or link; skips everything else (devices, FIFOs). */
function createEntry(root: string, path: string, { type, linkpath = "", path: name, mode = 0o755 }: ReadEntry): void {
  const present = lstatSync(path, { throwIfNoEntry: false });
  if (type === "Directory") {
    if (present !== undefined && !present.isDirectory()) rmSync(path, { force: true });
    if (present?.isDirectory() !== true) mkdirSync(path);
    // The owner must be able to unpack the next layer into it and to remove it.
    chmodSync(path, readableMode(mode | 0o700));
    return;
  }
  if (present !== undefined) rmSync(path, { recursive: true, force: true });
  if (type === "SymbolicLink") {
    // Only programs with this root resolve the link; we never do.
    symlinkSync(linkpath, path);
  } else if (type === "Link") {
    const parts = splitPath(linkpath);
    const target = join(requireFolder(root, parts.slice(0, -1)), parts.at(-1) ?? "");
    const found = lstatSync(target, { throwIfNoEntry: false });
    if (found === undefined || !found.isFile()) throw invalid(`${JSON.stringify(name)} links to a file outside the image`);
    linkSync(target, path);
  }
}

/** Creates the directory of these components. Rejects symbolic links, so that layers do not write through them. */
function makeFolders(root: string, parts: readonly string[]): string {
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    const present = lstatSync(path, { throwIfNoEntry: false });
    if (present?.isDirectory() === true) continue;
    if (present?.isSymbolicLink() === true) throw invalid(`${JSON.stringify(parts.join("/"))} leads through a symbolic link`);
    if (present !== undefined) rmSync(path, { force: true });
    mkdirSync(path, { mode: 0o755 });
  }
  return path;
}

function requireFolder(root: string, parts: readonly string[]): string {
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
      throw invalid(`${JSON.stringify(parts.join("/"))} is not a directory of the image`);
    }
  }
  return path;
}
