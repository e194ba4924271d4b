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

/** What an image may still have; counted down while its layers are unpacked. */
export interface UnpackLimits {
  bytes: number;
  entries: number;
}

/** The parts of a path inside an archive. Throws where it leads out. */
function partsOf(path: string): readonly string[] {
  if (path.includes("\0")) throw invalid("a path has a NUL character");
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw invalid(`${JSON.stringify(path)} leads out of the image`);
  return parts;
}

/**
 * Puts one layer of an image, a tar archive (also compressed with gzip), over a folder (OCI image specification, layer.md: changesets
 * and whiteouts). The archive is read in pieces, whatever its size.
 *
 * **Guarantees**: nothing is written, linked or removed outside of `root`, whatever the archive says: no part of a path is followed
 * when it is a symbolic link, no hard link leads to one or out, and devices are left out. Files lose their set-uid bits.
 */
export async function unpackLayer(root: string, archive: string, limits: UnpackLimits): Promise<void> {
  let problem: unknown;
  const parser = new Parser({
    strict: true,
    // `limits` bound what comes out; empty disk images in layers shrink to less than a thousandth.
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
          throw new ImageError("TooLarge", "the image is larger, or has more files, than what is taken");
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
  // It may fail while the file is still being read.
  ended.catch(() => {});
  try {
    // Every entry is taken as it comes, so nothing piles up in the parser.
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

/** Puts one entry in its place. `onError` is told of what fails while a file's content arrives. */
function unpackEntry(root: string, entry: ReadEntry, onError: (error: unknown) => void): void {
  const parts = partsOf(entry.path);
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
    if (gone === "" || gone === "." || gone === "..")
      throw invalid(`${JSON.stringify(entry.path)} removes nothing that may be removed`);
    rmSync(join(folder, gone), { recursive: true, force: true });
  } else if (isFile.test(entry.type)) {
    placeFile(join(folder, name), entry, onError);
    return;
  } else {
    place(root, join(folder, name), entry);
  }
  entry.resume();
}

const isFile = /^(?:File|OldFile|ContiguousFile)$/;

/** Writes a file while it arrives. */
function placeFile(path: string, entry: ReadEntry, onError: (error: unknown) => void): void {
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
    fchmodSync(file, ((entry.mode ?? 0o644) & 0o777) | 0o400);
    close();
  });
  // An archive that is cut off ends no entry.
  entry.once("error", close);
}

/** Puts a folder or link in its place; everything else (devices, FIFOs) is left out. */
function place(root: string, path: string, { type, linkpath = "", path: name, mode = 0o755 }: ReadEntry): void {
  const present = lstatSync(path, { throwIfNoEntry: false });
  if (type === "Directory") {
    if (present !== undefined && !present.isDirectory()) rmSync(path, { force: true });
    if (present?.isDirectory() !== true) mkdirSync(path);
    // Its owner has to be able to unpack the next layer into it, and to remove it.
    chmodSync(path, (mode & 0o777) | 0o700);
    return;
  }
  if (present !== undefined) rmSync(path, { recursive: true, force: true });
  if (type === "SymbolicLink") {
    // Where it leads is looked at by programs whose root is the image, and by us never.
    symlinkSync(linkpath, path);
  } else if (type === "Link") {
    const parts = partsOf(linkpath);
    const target = join(existing(root, parts.slice(0, -1)), parts.at(-1) ?? "");
    const found = lstatSync(target, { throwIfNoEntry: false });
    if (found === undefined || !found.isFile()) throw invalid(`${JSON.stringify(name)} is a link to no file of the image`);
    linkSync(target, path);
  }
}

/** The folder of these parts, made where it is not there. One that is a link is replaced by a folder: layers do not write through. */
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

function existing(root: string, parts: readonly string[]): string {
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
      throw invalid(`${JSON.stringify(parts.join("/"))} is no folder of the image`);
    }
  }
  return path;
}
