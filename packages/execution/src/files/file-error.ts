const sentences: Readonly<Record<string, string>> = {
  ENOENT: "no such file or directory",
  ENOTDIR: "not a directory",
  EACCES: "permission denied",
  EPERM: "operation not permitted",
  ENOSPC: "no space left on device",
  EDQUOT: "disk quota exceeded",
  EROFS: "read-only file system",
  EMFILE: "too many open files",
  ENFILE: "too many open files on this machine",
  ENOMEM: "out of memory",
  EAGAIN: "too many processes",
};

/** The `code` of a system error, as `ENOENT`; undefined for anything else. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Describes a system error in plain English, with its code. */
export function describeError(error: unknown): string {
  const code = errorCode(error);
  if (code !== undefined && Object.hasOwn(sentences, code)) return `${sentences[code]} (${code})`;
  return error instanceof Error ? error.message : String(error);
}
