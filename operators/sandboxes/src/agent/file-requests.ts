import type { IncomingMessage, ServerResponse } from "node:http";
import { parseJsonObject } from "@keelson/api-machinery";
import type { Program } from "@keelson/execution";
import type { FileHelpers } from "../files/file-helpers.ts";
import { FileError, type FileOperation, type FileResult, isInode, maxPathBytes } from "../files/file-operations.ts";
import type { FolderWatch, FolderWatches } from "../files/folder-watches.ts";
import { type FolderWatchLine, fileResultHeader } from "../protocol/protocol.ts";
import { asRequestError, readBody, RequestError, send } from "./agent-http.ts";

/** HTTP status of a failed file operation. */
const fileErrorStatus: Readonly<Record<FileError["code"], number>> = {
  NotFound: 404,
  Denied: 403,
  Conflict: 409,
  NoSpace: 507,
  TooLarge: 413,
  Invalid: 400,
  Failed: 500,
};

/** A result as the value of a header, which is ASCII. */
const resultHeader = (result: FileResult): string => encodeURIComponent(JSON.stringify(result));

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

/** Parses the `operation` of a request, whose body is the data to write. Undefined if it is invalid. */
export function parseFileOperation(text: string, data: Uint8Array): FileOperation | undefined {
  const value = parseJsonObject(text);
  if (value === undefined) return undefined;
  const { kind, path, offset, inode, upload, mode, isRecursive } = value;
  if (typeof path !== "string" || Buffer.byteLength(path) > maxPathBytes) return undefined;
  switch (kind) {
    case "stat":
    case "list":
    case "make-directory":
      return { kind, path };
    case "read":
      if (!isCount(offset) || (inode !== undefined && !isInode(inode))) return undefined;
      return { kind, path, offset, ...(inode !== undefined && { inode }) };
    case "remove":
      return { kind, path, isRecursive: isRecursive === true };
  }
  if (typeof upload !== "string") return undefined;
  if (kind === "write") return isCount(offset) ? { kind, path, upload, offset, data } : undefined;
  if (kind === "commit") return isCount(mode) ? { kind, path, upload, mode } : undefined;
  return kind === "abort" ? { kind, path, upload } : undefined;
}

/** Rejects with the error of a file operation as that of a request. */
function asAnswer(error: unknown): never {
  throw error instanceof FileError ? new RequestError(fileErrorStatus[error.code], error.message) : asRequestError(error);
}

/** Runs the operation of a request on the files of a program. */
export async function answerFiles(
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
  program: Program,
  helpers: FileHelpers,
): Promise<void> {
  const operation = parseFileOperation(query.get("operation") ?? "", await readBody(request));
  if (operation === undefined) throw new RequestError(400, "operation: must be a file operation");
  const { data: content, ...result } = await helpers.run(program, operation).catch(asAnswer);
  if (content === undefined) return send(response, 200, result);
  const headers = { "content-type": "application/octet-stream", [fileResultHeader]: resultHeader(result) };
  response.writeHead(200, headers).end(content);
}

/** Starts the watch of a request. **Errors**: `RequestError`. */
export function openFolderWatch(query: URLSearchParams, program: Program, watches: FolderWatches): Promise<FolderWatch> {
  const target = { path: query.get("path") ?? "", isRecursive: query.get("recursive") === "true" };
  return watches.open(program, target).catch(asAnswer);
}

/** The reports of a watch as JSON lines. The last one shows that it has not broken. */
export async function* watchLines(watch: FolderWatch, signal: AbortSignal): AsyncGenerator<string> {
  const line = (value: FolderWatchLine): string => `${JSON.stringify(value)}\n`;
  if (signal.aborted) watch.stop();
  signal.addEventListener("abort", watch.stop, { once: true });
  for await (const report of watch.reports) yield line(report);
  yield line({ hasEnded: true });
}
