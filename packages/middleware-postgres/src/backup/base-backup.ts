import { createHash } from "node:crypto";
import { posix } from "node:path";
import { pipeline, Readable } from "node:stream";
import { AgentError } from "@keelson/middleware-agent";
import { type BackupManifest, type ManifestFile, parseManifest } from "./backup-manifest.ts";

/** Receives the files of a base backup. */
export interface BaseBackupSink {
  createFolder(path: string): Promise<void>;
  writeFile(path: string, data: AsyncIterable<Uint8Array>): Promise<void>;
}

/** What a base backup contains. */
export interface BaseBackupContent extends BackupManifest {
  /** Major version of the server that wrote it, such as `15`. */
  readonly majorVersion: string;
}

const manifestName = "backup_manifest";
const maxManifestBytes = 256 * 1_048_576;
/** Segments of the log are not in the manifest. */
const segment = /^pg_wal\/[0-9A-F]{24}$/;

/**
 * Reads a base backup, a tar archive of `pg_basebackup`, and compares every file with the manifest at its end.
 *
 * **Errors**: an `AgentError` with code `SnapshotFailed` if it is damaged or truncated.
 */
export async function readBaseBackup(data: AsyncIterable<Uint8Array>, sink: BaseBackupSink): Promise<BaseBackupContent> {
  // Loaded on demand: controllers, which know the plugin, read no backups.
  const { extract } = await import("tar-stream");
  const archive = extract();
  // Errors of both reach the loop below.
  pipeline(Readable.from(data), archive, () => undefined);
  const found = new Map<string, ManifestFile>();
  let segments = 0;
  let manifest: BackupManifest | undefined;
  let majorVersion = "";
  try {
    for await (const entry of archive) {
      const { type, name } = entry.header;
      const body = entry as AsyncIterable<Uint8Array>;
      const path = checkedName(name);
      if (type === "directory") {
        if (path !== ".") await sink.createFolder(path);
        entry.resume();
      } else if (type !== "file") {
        throw failed(`${name} is a ${type ?? "file of an unknown type"}: tablespaces are not supported`);
      } else if (path === manifestName) {
        manifest = parseManifest((await collected(body, maxManifestBytes)).toString("utf8"));
      } else if (path === "PG_VERSION") {
        const text = await collected(body, 100);
        majorVersion = text.toString("utf8").trim();
        found.set(path, digestOf(text));
        await sink.writeFile(path, once(text));
      } else {
        const digest = new FileDigest(body);
        await sink.writeFile(path, digest);
        if (segment.test(path)) segments += 1;
        else found.set(path, digest.result);
      }
    }
  } catch (error) {
    if (error instanceof AgentError || !isArchiveError(error)) throw error;
    throw failed(`the archive is damaged: ${error.message}`);
  }
  if (manifest === undefined) throw failed("the archive has no manifest: it is truncated");
  compare(manifest, found);
  if (segments === 0) throw failed("the archive has no log");
  return { ...manifest, majorVersion };
}

function compare({ files }: BackupManifest, found: ReadonlyMap<string, ManifestFile>): void {
  for (const [path, { sizeBytes, sha256 }] of files) {
    const file = found.get(path);
    if (file === undefined) throw failed(`${path} is missing`);
    if (file.sizeBytes !== sizeBytes || file.sha256 !== sha256) throw failed(`${path} differs from the manifest`);
  }
  for (const path of found.keys()) if (!files.has(path)) throw failed(`${path} is not in the manifest`);
}

/** Paths outside the data directory are refused. */
function checkedName(name: string): string {
  const path = posix.normalize(name).replace(/\/$/, "");
  if (path.startsWith("/") || path === ".." || path.startsWith("../")) throw failed(`${name} is outside the data directory`);
  return path;
}

/** Hashes a file as it passes. */
class FileDigest implements AsyncIterable<Uint8Array> {
  readonly #data: AsyncIterable<Uint8Array>;
  readonly #hash = createHash("sha256");
  #sizeBytes = 0;

  constructor(data: AsyncIterable<Uint8Array>) {
    this.#data = data;
  }

  /** Size and checksum, once all bytes have passed. */
  get result(): ManifestFile {
    return { sizeBytes: this.#sizeBytes, sha256: this.#hash.digest("hex") };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#data) {
      this.#hash.update(chunk);
      this.#sizeBytes += chunk.length;
      yield chunk;
    }
  }
}

const digestOf = (data: Buffer): ManifestFile => ({
  sizeBytes: data.length,
  sha256: createHash("sha256").update(data).digest("hex"),
});

async function collected(data: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of data) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw failed(`a file of the archive has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function* once(data: Uint8Array): AsyncGenerator<Uint8Array> {
  yield data;
}

/** Whether the archive itself is the cause, and neither its source nor the disk. */
function isArchiveError(error: unknown): error is Error {
  return (
    error instanceof Error &&
    (error as NodeJS.ErrnoException).code === undefined &&
    /tar|header|end of data/i.test(error.message)
  );
}

const failed = (message: string): AgentError => new AgentError("SnapshotFailed", message);

/** A sink that keeps nothing: the archive is only compared with its manifest. */
export const discard: BaseBackupSink = {
  createFolder: () => Promise.resolve(),
  async writeFile(_, data) {
    for await (const _chunk of data);
  },
};
