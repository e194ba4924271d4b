import { parseJsonObject } from "@keelson/api-machinery";
import { type FileError, type FileOperation, type FileResult, maxPathBytes } from "../files/file-operations.ts";

/** HTTP status of a failed file operation. */
export const fileErrorStatus: Readonly<Record<FileError["code"], number>> = {
  NotFound: 404,
  Denied: 403,
  Conflict: 409,
  NoSpace: 507,
  TooLarge: 413,
  Invalid: 400,
  Failed: 500,
};

/** A result as the value of a header, which is ASCII. */
export const resultHeader = (result: FileResult): string => encodeURIComponent(JSON.stringify(result));

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
      if (!isCount(offset) || (inode !== undefined && !isCount(inode))) return undefined;
      return { kind, path, offset, ...(inode !== undefined && { inode }) };
    case "remove":
      return { kind, path, isRecursive: isRecursive === true };
  }
  if (typeof upload !== "string") return undefined;
  if (kind === "write") return isCount(offset) ? { kind, path, upload, offset, data } : undefined;
  if (kind === "commit") return isCount(mode) ? { kind, path, upload, mode } : undefined;
  return kind === "abort" ? { kind, path, upload } : undefined;
}
