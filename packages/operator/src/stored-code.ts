import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { crc32 } from "node:zlib";

/*
 * Compiled code of files by name, in one file: a header with the length and the checksum of the index, the index as JSON, and the code.
 */
const headerBytes = 8;

/** Where a file's compiled code is, counted from the end of the index. */
type Place = readonly [offset: number, length: number, checksum: number];

/** Maximum number of files of a program. */
const maxFiles = 4;

/** Compiled code that an earlier process has stored. */
export class StoredCode {
  readonly #descriptor: number;
  readonly #size: number;
  readonly #start: number;
  readonly #places: ReadonlyMap<string, Place>;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
    this.#size = fstatSync(descriptor).size;
    const header = this.#readAt(0, headerBytes);
    const length = header.readUInt32LE(0);
    const index = this.#readAt(headerBytes, length);
    if (crc32(index) !== header.readUInt32LE(4)) throw new Error("the index is damaged");
    this.#places = new Map(JSON.parse(index.toString("latin1")) as [string, Place][]);
    this.#start = headerBytes + length;
  }

  /** `undefined` if nothing readable is stored. */
  static open(path: string): StoredCode | undefined {
    let descriptor: number | undefined;
    try {
      descriptor = openSync(path, "r");
      return new StoredCode(descriptor);
    } catch {
      if (descriptor !== undefined) closeSync(descriptor);
      return undefined;
    }
  }

  files(): Iterable<string> {
    return this.#places.keys();
  }

  /** `undefined` if it is not stored, or damaged. */
  read(file: string): Buffer | undefined {
    const place = this.#places.get(file);
    if (place === undefined) return undefined;
    const [offset, length, checksum] = place;
    try {
      const code = this.#readAt(this.#start + offset, length);
      // V8 does not verify the code that it runs.
      return crc32(code) === checksum ? code : undefined;
    } catch {
      return undefined;
    }
  }

  #readAt(offset: number, length: number): Buffer {
    if (offset + length > this.#size) throw new Error("the file ends before");
    const buffer = Buffer.allocUnsafeSlow(length);
    if (readSync(this.#descriptor, buffer, 0, length, offset) !== length) throw new Error("the file ends before");
    return buffer;
  }
}

/**
 * Stores the compiled code of files by name, for {@link StoredCode}. Of the files in the directory whose names start with `name`, one for each
 * version and set of options of Node.js, only the newest {@link maxFiles} are kept. Rejects if the directory is not writable or the disk is full.
 */
export async function storeCode(path: string, name: string, code: ReadonlyMap<string, Buffer>): Promise<void> {
  let offset = 0;
  const places = [...code].map(([file, part]): [string, Place] => {
    offset += part.length;
    return [file, [offset - part.length, part.length, crc32(part)]];
  });
  const index = Buffer.from(JSON.stringify(places), "latin1");
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(index.length, 0);
  header.writeUInt32LE(crc32(index), 4);
  const draft = `${path}.${process.pid}.tmp`;
  try {
    // Later processes run it, so only its owner may write it, whatever the umask.
    const file = await open(draft, "wx", 0o644);
    try {
      for (const part of [header, index, ...code.values()]) await file.appendFile(part);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await removeOld(dirname(path), name, basename(path));
}

async function removeOld(folder: string, name: string, current: string): Promise<void> {
  const others = (await readdir(folder)).filter((each) => each.startsWith(name) && each !== current);
  const files = await Promise.all(
    others.map(async (each) => ({ path: join(folder, each), writtenMs: (await stat(join(folder, each))).mtimeMs })),
  );
  files.sort((a, b) => b.writtenMs - a.writtenMs);
  for (const { path } of files.slice(maxFiles - 1)) await rm(path, { force: true });
}
