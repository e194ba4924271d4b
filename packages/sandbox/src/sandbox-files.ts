import type { Connection } from "./connection.ts";
import type { SandboxKey } from "./command.ts";
import { type FileInfo, FileType } from "./generated/keelson/sandboxes/v1/files_pb.ts";
import { type FolderWatch, openFolderWatch } from "./folder-watch.ts";
import { call, callStream, SandboxError } from "./sandbox-error.ts";

/** A file of a sandbox. */
export interface FileEntry {
  readonly name: string;
  readonly type: "file" | "directory" | "symlink" | "other";
  readonly sizeBytes: number;
  /** Permission bits. */
  readonly mode: number;
  readonly modifiedAt: Date;
  /** Target of a symbolic link. */
  readonly target?: string;
}

/** Last option of every call. */
export interface CallOptions {
  readonly signal?: AbortSignal;
}

/** What can be written to a file. */
export type FileContent = string | Uint8Array | AsyncIterable<Uint8Array>;

/** Content per message. */
const chunkBytes = 256 * 1024;

/** Default limit of {@link SandboxFiles.read}. */
const defaultMaxBytes = 64 * 1024 * 1024;

/** The files of a sandbox. Paths are absolute, or relative to its work directory; every call has the permissions of the sandbox's user. */
export class SandboxFiles {
  readonly #connection: Connection;
  readonly #key: SandboxKey;

  /** Use `Sandbox.files`. */
  constructor(connection: Connection, key: SandboxKey) {
    this.#connection = connection;
    this.#key = key;
  }

  /** Reads a whole file. **Errors**: `NotFound`; `ResourceExhausted` above `maxBytes` (default: 64 MiB). */
  async read(
    path: string,
    { maxBytes = defaultMaxBytes, ...options }: CallOptions & { readonly maxBytes?: number } = {},
  ): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of this.stream(path, options)) {
      size += chunk.length;
      if (size > maxBytes) throw new SandboxError("ResourceExhausted", `${path}: exceeds maxBytes, ${maxBytes} bytes`);
      chunks.push(chunk);
    }
    return joinChunks(chunks);
  }

  /** Reads a whole file as UTF-8. */
  async readText(path: string, options: CallOptions & { readonly maxBytes?: number } = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options));
  }

  /** Reads a file part by part. Rejects if it is replaced in the meantime. */
  async *stream(path: string, { signal }: CallOptions = {}): AsyncGenerator<Uint8Array> {
    const read = () => this.#connection.files.read({ ...this.#key, path }, { ...(signal && { signal }) });
    for await (const { data } of callStream(signal, read)) yield data;
  }

  /** Writes a file, which is replaced once all of its content has arrived. `mode`: permission bits, default 0644. */
  async write(
    path: string,
    content: FileContent,
    { mode = 0, signal }: CallOptions & { readonly mode?: number } = {},
  ): Promise<FileEntry> {
    const start = { ...this.#key, path, mode };
    const { files } = this.#connection;
    return entryOf(await call(signal, () => files.write(requestsOf(start, content), { ...(signal && { signal }) })));
  }

  /** The entries of a directory, by name. */
  async list(path = ".", { signal }: CallOptions = {}): Promise<readonly FileEntry[]> {
    const entries: FileEntry[] = [];
    const list = () => this.#connection.files.list({ ...this.#key, path }, { ...(signal && { signal }) });
    for await (const message of callStream(signal, list)) entries.push(...message.entries.map(entryOf));
    return entries;
  }

  async stat(path: string, { signal }: CallOptions = {}): Promise<FileEntry> {
    return entryOf(
      await call(signal, () => this.#connection.files.stat({ ...this.#key, path }, { ...(signal && { signal }) })),
    );
  }

  /**
   * Watches a directory, and with `recursive` those below it. Resolves when every later change is reported, so that none is missed between this
   * call and the first iteration. The changes end when the directory is removed or renamed, and with the sandbox. Close the watch if you stop before.
   *
   * **Errors**: `FailedPrecondition` if it is not a directory, `ResourceExhausted` above the limits; while iterating `Unavailable` if the
   * connection is lost: changes may be missing.
   *
   * **Example**
   *
   * ```ts
   * await using watch = await box.files.watch("src", { recursive: true });
   * for await (const { type, path } of watch) console.log(type, path);
   * ```
   */
  watch(path: string, options: CallOptions & { readonly recursive?: boolean } = {}): Promise<FolderWatch> {
    return openFolderWatch(this.#connection, { ...this.#key, path }, options);
  }

  /** Creates a directory and its parents. */
  async makeDirectory(path: string, { signal }: CallOptions = {}): Promise<void> {
    await call(signal, () => this.#connection.files.makeDirectory({ ...this.#key, path }, { ...(signal && { signal }) }));
  }

  /** Removes a file, or a directory with what is in it if `recursive`. */
  async remove(
    path: string,
    { recursive = false, signal }: CallOptions & { readonly recursive?: boolean } = {},
  ): Promise<void> {
    await call(signal, () => this.#connection.files.remove({ ...this.#key, path, recursive }, { ...(signal && { signal }) }));
  }
}

async function* requestsOf(start: SandboxKey & { readonly path: string; readonly mode: number }, content: FileContent) {
  yield { request: { case: "start" as const, value: start } };
  for await (const part of partsOf(content)) {
    for (let from = 0; from < part.length; from += chunkBytes)
      yield { request: { case: "data" as const, value: part.subarray(from, from + chunkBytes) } };
  }
  yield { request: { case: "commit" as const, value: true } };
}

async function* partsOf(content: FileContent): AsyncGenerator<Uint8Array> {
  if (typeof content === "string") yield new TextEncoder().encode(content);
  else if (content instanceof Uint8Array) yield content;
  else yield* content;
}

/** Joins parts of a content. */
export function joinChunks(chunks: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.length, 0));
  let offset = 0;
  for (const chunk of chunks) {
    joined.set(chunk, offset);
    offset += chunk.length;
  }
  return joined;
}

const types: Partial<Record<FileType, FileEntry["type"]>> = {
  [FileType.FILE]: "file",
  [FileType.DIRECTORY]: "directory",
  [FileType.SYMLINK]: "symlink",
};

function entryOf({ name, type, sizeBytes, mode, modifiedMs, target }: FileInfo): FileEntry {
  return {
    ...{ name, mode },
    type: types[type] ?? "other",
    sizeBytes: Number(sizeBytes),
    modifiedAt: new Date(Number(modifiedMs)),
    ...(target !== "" && { target }),
  };
}
