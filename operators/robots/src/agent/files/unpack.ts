import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import type { ReadEntry } from "tar";
import { RobotsError } from "../../robots-error.ts";
import type { Artifact } from "./artifact.ts";
import type { FileWriter, TaskFolder } from "./task-folder.ts";
import { folderPath } from "./task-path.ts";

/** Maximum number of files and directories of an archive. */
const maxEntries = 100_000;

/** Maximum size of the header and padding of an entry of a tar archive. */
const maxHeaderBytes = 2048;

/** Where and how an archive is unpacked. */
export interface UnpackTarget {
  readonly folder: TaskFolder;
  /** Path below the directory. */
  readonly path: string;
  /** Maximum size of all files. */
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/**
 * Unpacks an archive that its author may have made to do harm.
 *
 * **Errors**: {@link RobotsError} with the code `ArtifactFailed` for a damaged archive, one with links, devices or paths that leave the directory,
 * and one whose files are too large or too many. Files before the offending entry remain.
 */
export async function unpackArchive(
  file: string,
  format: NonNullable<Artifact["archive"]>,
  target: UnpackTarget,
): Promise<void> {
  const entries = new Entries(target);
  try {
    if (format === "tar") await unpackTar(file, entries);
    else await unpackZip(file, entries);
  } catch (error) {
    if (target.signal.aborted) throw target.signal.reason;
    if (error instanceof RobotsError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new RobotsError("ArtifactFailed", `could not unpack the archive: ${message}`, { cause: error });
  }
}

/** The entries of one archive: checks their paths and counts them. */
class Entries {
  readonly #target: UnpackTarget;
  #count = 0;
  #bytes = 0;
  #readBytes = 0;

  constructor(target: UnpackTarget) {
    this.#target = target;
  }

  /** Counts what was read of an archive, decompressed, including what is not in its files. */
  read(bytes: number): void {
    const { maxBytes, signal } = this.#target;
    signal.throwIfAborted();
    this.#readBytes += bytes;
    if (this.#readBytes > maxBytes + maxEntries * maxHeaderBytes) throw this.#tooLarge();
  }

  folder(name: string): void {
    this.#target.folder.createFolder(this.#accept(name, 0));
  }

  /** A writer for a file of `size` bytes. */
  file(name: string, size: number, mode: number): FileWriter {
    // No set-uid bits, and the owner can read what was unpacked.
    const writer = this.#target.folder.createFile(this.#accept(name, size), (mode & 0o777) | 0o400);
    const { signal } = this.#target;
    return {
      write(chunk) {
        signal.throwIfAborted();
        writer.write(chunk);
      },
      [Symbol.dispose]: () => writer[Symbol.dispose](),
    };
  }

  reject(name: string, what: string): never {
    throw new RobotsError("ArtifactFailed", `the archive contains ${what}: ${JSON.stringify(name.slice(0, 200))}`);
  }

  #accept(name: string, size: number): string {
    const { path, maxBytes, signal } = this.#target;
    signal.throwIfAborted();
    this.#count++;
    this.#bytes += size;
    if (this.#count > maxEntries) throw new RobotsError("ArtifactFailed", `the archive has more than ${maxEntries} files`);
    if (this.#bytes > maxBytes) throw this.#tooLarge();
    const relative = name.startsWith("/") || name.split("/").includes("..") ? undefined : folderPath(`${path}/${name}`);
    return relative ?? this.reject(name, "a path that leaves its directory");
  }

  #tooLarge(): RobotsError {
    const { maxBytes } = this.#target;
    const message = `the archive's files are larger than the robot's policy allows (${maxBytes} bytes)`;
    return new RobotsError("ArtifactFailed", message);
  }
}

/**
 * The content of a tar archive, decompressed in small parts off the event loop: a few kilobytes may decompress to gigabytes of empty blocks, of
 * which a parser would find the end only after all of them.
 */
async function* readTar(file: string): AsyncGenerator<Buffer> {
  const source = createReadStream(file);
  // `for await` reports the error.
  const content = (await isGzip(file)) ? pipeline(source, createGunzip(), () => {}) : source;
  let isFirst = true;
  for await (const chunk of content) {
    const part = chunk as Buffer;
    // The parser would decompress it at the same time, without a limit.
    if (isFirst && hasGzipHeader(part)) throw new RobotsError("ArtifactFailed", "the archive is compressed more than once");
    isFirst = false;
    yield part;
  }
}

const hasGzipHeader = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

async function isGzip(path: string): Promise<boolean> {
  await using file = await open(path, "r");
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
  return hasGzipHeader(buffer);
}

async function unpackTar(file: string, entries: Entries): Promise<void> {
  const { Parser } = await import("tar");
  const files = new TarFiles(entries);
  let isOver = false;
  const parser = new Parser({
    strict: true,
    brotli: false,
    zstd: false,
    onReadEntry: (entry) => files.take(entry),
  });
  // What follows the end of the archive is not read.
  parser.once("eof", () => (isOver = true));
  const ended = new Promise<void>((resolve, reject) => {
    parser.once("end", () => resolve());
    parser.once("error", reject);
  });
  // It may reject while the file is still being read.
  ended.catch(() => {});
  try {
    for await (const chunk of readTar(file)) {
      entries.read(chunk.length);
      parser.write(chunk);
      files.throwProblem();
      if (isOver) break;
    }
    parser.end();
    await ended;
    files.throwProblem();
  } finally {
    files.close();
  }
}

/** Writes the entries of a tar archive. Its parser cannot be stopped, so after the first problem the other entries are skipped. */
class TarFiles {
  readonly #entries: Entries;
  #problem: unknown;
  #current: FileWriter | undefined;

  constructor(entries: Entries) {
    this.#entries = entries;
  }

  take(entry: ReadEntry): void {
    try {
      if (this.#problem === undefined) this.#write(entry);
      else entry.resume();
    } catch (error) {
      this.#problem = error;
      entry.resume();
    }
  }

  throwProblem(): void {
    if (this.#problem !== undefined) throw this.#problem;
  }

  /** The parser may still emit data of a failed archive. It must not reach a closed descriptor. */
  close(): void {
    this.#problem ??= new RobotsError("ArtifactFailed", "the archive is closed");
    this.#current?.[Symbol.dispose]();
  }

  #write(entry: ReadEntry): void {
    const { path, type, size, mode = 0o644 } = entry;
    if (type === "Directory") {
      this.#entries.folder(path);
      entry.resume();
      return;
    }
    if (type !== "File" && type !== "OldFile" && type !== "ContiguousFile")
      return this.#entries.reject(path, /Link/.test(type) ? "a link" : `an entry of type ${type}`);
    const writer = this.#entries.file(path, size, mode);
    this.#current = writer;
    entry.on("data", (chunk) => {
      try {
        if (this.#problem === undefined) writer.write(chunk);
      } catch (error) {
        this.#problem = error;
      }
    });
    entry.once("end", () => writer[Symbol.dispose]());
    // A truncated archive does not end its last entry.
    entry.once("error", () => writer[Symbol.dispose]());
  }
}

/** Type bits of a Unix mode. */
const typeMask = 0o170000;
const regularType = 0o100000;
const folderType = 0o040000;

async function unpackZip(file: string, entries: Entries): Promise<void> {
  const { default: yauzl } = await import("yauzl");
  // Checks that each file has the size that its header states, so that the limit holds.
  const archive = await yauzl.openPromise(file, { lazyEntries: true, strictFileNames: true, validateEntrySizes: true });
  try {
    for await (const entry of archive.eachEntry()) {
      const name = entry.fileName;
      const mode = entry.externalFileAttributes >>> 16;
      const type = mode & typeMask;
      const isFolder = name.endsWith("/");
      if (entry.isEncrypted()) entries.reject(name, "an encrypted file");
      if (type !== 0 && type !== (isFolder ? folderType : regularType)) entries.reject(name, "a link or special file");
      if (isFolder) {
        entries.folder(name);
        continue;
      }
      using writer = entries.file(name, entry.uncompressedSize, mode === 0 ? 0o644 : mode);
      for await (const chunk of await archive.openReadStreamPromise(entry)) writer.write(chunk as Buffer);
    }
  } finally {
    archive.close();
  }
}
