import {
  chmodSync,
  closeSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { readTar, type TarEntry, TarError } from "./tar.ts";

const whiteout = ".wh.";
const opaque = ".wh..wh..opq";

/** The parts of a path inside an archive. Throws where it leads out. */
function partsOf(path: string): readonly string[] {
  if (path.includes("\0")) throw new TarError("a path has a NUL character");
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw new TarError(`${JSON.stringify(path)} leads out of the image`);
  return parts;
}

/**
 * Puts one layer of an image over a folder (OCI image-spec, layer: changesets and whiteouts).
 *
 * **Guarantees**: nothing is written, linked or removed outside of `root`, whatever the archive says: no part of a path is followed
 * when it is a symbolic link, no hard link leads to one or out, and devices are left out. Files lose their set-uid bits.
 */
export function unpackLayer(root: string, archive: Uint8Array, limits: { bytes: number; entries: number }): void {
  for (const entry of readTar(archive)) {
    limits.entries--;
    limits.bytes -= entry.content.length;
    if (limits.entries < 0 || limits.bytes < 0) throw new TarError("the image is larger than what is taken");
    const parts = partsOf(entry.path);
    const name = parts.at(-1);
    if (name === undefined) continue;
    const folder = makeFolders(root, parts.slice(0, -1));
    if (name === opaque) {
      for (const child of readdirSync(folder)) rmSync(join(folder, child), { recursive: true, force: true });
    } else if (name.startsWith(whiteout)) {
      const gone = name.slice(whiteout.length);
      if (gone === "" || gone === "." || gone === "..")
        throw new TarError(`${JSON.stringify(entry.path)} removes nothing that may be removed`);
      rmSync(join(folder, gone), { recursive: true, force: true });
    } else {
      place(root, join(folder, name), entry);
    }
  }
}

function place(root: string, path: string, entry: TarEntry): void {
  const present = lstatSync(path, { throwIfNoEntry: false });
  if (entry.kind === "folder") {
    if (present !== undefined && !present.isDirectory()) rmSync(path, { force: true });
    if (present?.isDirectory() !== true) mkdirSync(path);
    // Its owner has to be able to unpack the next layer into it, and to remove it.
    chmodSync(path, entry.mode | 0o700);
    return;
  }
  if (present !== undefined) rmSync(path, { recursive: true, force: true });
  switch (entry.kind) {
    case "file": {
      const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;
      const file = openSync(path, flags, 0o600);
      try {
        for (let at = 0; at < entry.content.length; ) at += writeSync(file, entry.content, at);
      } finally {
        closeSync(file);
      }
      chmodSync(path, entry.mode | 0o400);
      return;
    }
    case "symlink":
      // Where it leads is looked at by programs whose root is the image, and by us never.
      symlinkSync(entry.link, path);
      return;
    case "hardlink": {
      const parts = partsOf(entry.link);
      const target = join(existing(root, parts.slice(0, -1)), parts.at(-1) ?? "");
      const found = lstatSync(target, { throwIfNoEntry: false });
      if (found === undefined || !found.isFile())
        throw new TarError(`${JSON.stringify(entry.path)} is a link to no file of the image`);
      linkSync(target, path);
      return;
    }
    default:
      return;
  }
}

/** The folder of these parts, made where it is not there. One that is a link is replaced by a folder: layers do not write through. */
function makeFolders(root: string, parts: readonly string[]): string {
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    const present = lstatSync(path, { throwIfNoEntry: false });
    if (present?.isDirectory() === true) continue;
    if (present?.isSymbolicLink() === true)
      throw new TarError(`${JSON.stringify(parts.join("/"))} leads through a symbolic link`);
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
      throw new TarError(`${JSON.stringify(parts.join("/"))} is no folder of the image`);
    }
  }
  return path === "" ? dirname(root) : path;
}
