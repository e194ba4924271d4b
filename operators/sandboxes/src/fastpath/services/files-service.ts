import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  FileChangeType,
  FileChunkSchema,
  type FileInfo,
  FileInfoSchema,
  FileType,
  ListFilesResponseSchema,
  RemoveFileResponseSchema,
  type SandboxFiles,
  type WatchFilesResponse,
  WatchFilesResponseSchema,
  type WriteFileRequest,
} from "@keelson/sandbox/protocol";
import {
  maxChunkBytes,
  type FileInfo as AgentFileInfo,
  type FileOperation,
  type FileResult,
  type Inode,
} from "../../files/file-operations.ts";
import type { FolderReport } from "../../files/folder-changes.ts";
import { agentError, findAgent, type StreamsOptions } from "./streams-service.ts";

/** Entries or changes of a directory per message. */
const entriesPerMessage = 500;

const defaultMode = 0o644;

/** Runs operations on the files of one sandbox. */
type Run = (operation: FileOperation) => Promise<FileResult>;

/** The service `keelson.sandboxes.v1.SandboxFiles`. */
export function createFilesService(options: StreamsOptions): ServiceImpl<typeof SandboxFiles> {
  const open = (request: { readonly sandboxName: string; readonly namespace: string }): Run => {
    const { agent, sandboxId, absence } = findAgent(request, options);
    return async (operation) => {
      try {
        return await agent.files(sandboxId, operation);
      } catch (error) {
        throw agentError(error, absence);
      }
    };
  };
  return {
    stat: async (request) => infoOf(await open(request)({ kind: "stat", path: request.path })),

    async *list(request) {
      const { entries = [] } = await open(request)({ kind: "list", path: request.path });
      for (let first = 0; first < entries.length; first += entriesPerMessage) {
        yield create(ListFilesResponseSchema, { entries: entries.slice(first, first + entriesPerMessage).map(entryOf) });
      }
    },

    async *read(request, { signal }) {
      for await (const data of readFile(open(request), request.path)) {
        if (signal.aborted) return;
        yield create(FileChunkSchema, { data });
      }
    },

    async *watch({ path, recursive, ...sandbox }, { signal }) {
      const { agent, sandboxId, absence } = findAgent(sandbox, options);
      try {
        const reports = await agent.watchFiles(sandboxId, { path, isRecursive: recursive }, signal);
        yield create(WatchFilesResponseSchema, { started: true });
        for await (const report of reports) yield* watchResponses(report);
      } catch (error) {
        if (signal.aborted) return;
        throw agentError(error, absence);
      }
    },

    async write(requests) {
      const incoming = requests[Symbol.asyncIterator]();
      const first = await incoming.next();
      if (first.done || first.value.request.case !== "start")
        throw new ConnectError("start: must be the first message", Code.InvalidArgument);
      const { path, mode, ...sandbox } = first.value.request.value;
      if (mode > 0o777) throw new ConnectError("mode: must be at most 0777", Code.InvalidArgument);
      return infoOf(await writeFile(open(sandbox), { path, mode: mode || defaultMode }, dataOf(incoming)));
    },

    async remove(request) {
      await open(request)({ kind: "remove", path: request.path, isRecursive: request.recursive });
      return create(RemoveFileResponseSchema);
    },

    makeDirectory: async (request) => infoOf(await open(request)({ kind: "make-directory", path: request.path })),
  };
}

/** The content of a file, chunk by chunk: the next one is read when the caller takes it. Rejects if the file is replaced in the meantime. */
async function* readFile(run: Run, path: string): AsyncGenerator<Uint8Array> {
  let inode: Inode | undefined;
  for (let offset = 0; ; ) {
    const found = await run({ kind: "read", path, offset, ...(inode !== undefined && { inode }) });
    const { data = new Uint8Array() } = found;
    inode = found.inode;
    if (data.length > 0) yield data;
    offset += data.length;
    if (data.length < maxChunkBytes) return;
  }
}

/** Writes a file alongside its final path and replaces that at the end. A failure leaves the present file as it is. */
async function writeFile(
  run: Run,
  { path, mode }: { readonly path: string; readonly mode: number },
  content: AsyncIterable<Uint8Array>,
): Promise<FileResult> {
  const upload = randomBytes(16).toString("hex");
  let offset = 0;
  const write = async (data: Uint8Array): Promise<void> => {
    await run({ kind: "write", path, upload, offset, data });
    offset += data.length;
  };
  try {
    for await (const data of content) {
      for (let from = 0; from < data.length; from += maxChunkBytes) await write(data.subarray(from, from + maxChunkBytes));
    }
    // The first write creates the file.
    if (offset === 0) await write(new Uint8Array());
    return await run({ kind: "commit", path, upload, mode });
  } catch (error) {
    await run({ kind: "abort", path, upload }).catch(() => {});
    throw error;
  }
}

async function* dataOf(requests: AsyncIterator<WriteFileRequest>): AsyncGenerator<Uint8Array> {
  for (let next = await requests.next(); !next.done; next = await requests.next()) {
    const { request } = next.value;
    if (request.case === "commit") return;
    if (request.case !== "data") throw new ConnectError("data: must follow the first message", Code.InvalidArgument);
    yield request.value;
  }
  // Some clients end the stream as usual if their input fails.
  throw new ConnectError("the upload ended without commit; the file was left as it was", Code.Aborted);
}

const changeTypes = {
  create: FileChangeType.CREATE,
  write: FileChangeType.WRITE,
  remove: FileChangeType.REMOVE,
  rename: FileChangeType.RENAME,
  chmod: FileChangeType.CHMOD,
} as const;

/** A report in messages of limited size. The first one says whether changes before it were lost. */
function* watchResponses({ changes, isLossy }: FolderReport): Generator<WatchFilesResponse> {
  let lostChanges = isLossy;
  for (let first = 0; first < changes.length || lostChanges; first += entriesPerMessage) {
    const part = changes.slice(first, first + entriesPerMessage);
    yield create(WatchFilesResponseSchema, {
      changes: part.map(({ type, path, isDirectory }) => ({ type: changeTypes[type], path, isDirectory })),
      lostChanges,
    });
    lostChanges = false;
  }
}

const types = {
  file: FileType.FILE,
  directory: FileType.DIRECTORY,
  symlink: FileType.SYMLINK,
  other: FileType.OTHER,
} as const;

function entryOf({ name, type, sizeBytes, mode, modifiedMs, target = "" }: AgentFileInfo): FileInfo {
  return create(FileInfoSchema, {
    ...{ name, mode, target },
    type: types[type],
    sizeBytes: BigInt(sizeBytes),
    modifiedMs: BigInt(modifiedMs),
  });
}

function infoOf({ info }: FileResult): FileInfo {
  if (info === undefined) throw new ConnectError("the agent did not describe the file", Code.Internal);
  return entryOf(info);
}
