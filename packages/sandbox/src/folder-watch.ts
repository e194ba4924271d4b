import type { SandboxKey } from "./command.ts";
import type { Connection } from "./connection.ts";
import { FileChangeType, type WatchFilesResponse } from "./generated/keelson/sandboxes/v1/files_pb.ts";
import { call, callStream, SandboxError } from "./sandbox-error.ts";

/** A change in a watched directory. */
export interface FileChange {
  /**
   * `rename`: `path` is the former name; the new one is a `create` if it is in the watched directory too. `chmod`: mode, owner or times changed.
   * `lost`: changes were lost, since they were made faster than they were read, or there are too many directories; list the directory to find its
   * state.
   */
  readonly type: "create" | "write" | "remove" | "rename" | "chmod" | "lost";
  /** Relative to the watched directory; `.` is the directory itself. */
  readonly path: string;
  readonly isDirectory: boolean;
}

/** The changes of a watched directory, for one iteration. */
export interface FolderWatch extends AsyncIterable<FileChange>, AsyncDisposable {
  /** Ends the watch, even while an iteration waits. Idempotent. */
  close(): Promise<void>;
}

const types: Partial<Record<FileChangeType, FileChange["type"]>> = {
  [FileChangeType.CREATE]: "create",
  [FileChangeType.WRITE]: "write",
  [FileChangeType.REMOVE]: "remove",
  [FileChangeType.RENAME]: "rename",
  [FileChangeType.CHMOD]: "chmod",
};

/** Opens a watch, see `SandboxFiles.watch`. */
export async function openFolderWatch(
  { files }: Connection,
  folder: SandboxKey & { readonly path: string },
  { recursive = false, signal }: { readonly recursive?: boolean; readonly signal?: AbortSignal },
): Promise<FolderWatch> {
  const closing = new AbortController();
  const both = signal === undefined ? closing.signal : AbortSignal.any([signal, closing.signal]);
  const messages = callStream(signal, () => files.watch({ ...folder, recursive }, { signal: both }));
  const first = await call(signal, () => messages.next());
  if (first.done || !first.value.started) {
    closing.abort();
    throw new SandboxError("Internal", "the server did not start the watch");
  }
  const close = (): Promise<void> => {
    closing.abort();
    return Promise.resolve();
  };
  return {
    [Symbol.asyncIterator]: () => changesOf(messages, closing.signal),
    [Symbol.asyncDispose]: close,
    close,
  };
}

async function* changesOf(messages: AsyncIterator<WatchFilesResponse>, closing: AbortSignal): AsyncGenerator<FileChange> {
  try {
    for (let next = await messages.next(); !next.done; next = await messages.next()) {
      const { changes, lostChanges } = next.value;
      if (lostChanges) yield { type: "lost", path: ".", isDirectory: true };
      for (const { type, path, isDirectory } of changes) {
        const known = types[type];
        if (known !== undefined) yield { type: known, path, isDirectory };
      }
    }
  } catch (error) {
    if (!closing.aborted) throw error;
  } finally {
    await messages.return?.();
  }
}
