const sentences: Readonly<Record<string, string>> = {
  ENOENT: "no such file or directory",
  ENOTDIR: "not a directory",
  EACCES: "permission denied",
  EPERM: "operation not permitted",
  ENOSPC: "no space left on the disk",
  EDQUOT: "the disk quota is used up",
  EROFS: "the file system is read-only",
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

/** What a system error means, in words a person who never read errno(3) understands. */
export function describeError(error: unknown): string {
  const code = errorCode(error);
  if (code !== undefined && Object.hasOwn(sentences, code)) return `${sentences[code]} (${code})`;
  return error instanceof Error ? error.message : String(error);
}
