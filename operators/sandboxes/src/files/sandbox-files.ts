import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  opendirSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
  writeSync,
} from "node:fs";
import { openBeneath, type OpenBeneathOptions, PathError } from "@keelson/execution/files";
import {
  FileError,
  type FileInfo,
  type FileOperation,
  type FileResult,
  type Inode,
  inodeOf,
  maxChunkBytes,
  maxEntries,
  maxPathBytes,
} from "./file-operations.ts";

/*
 * File operations beneath the root of a sandbox. Every path is resolved by descriptors, see `openBeneath`; the last step acts on an entry
 * of an open directory, which is not followed if it is a link. The caller runs as the sandbox's user, so the kernel's permissions apply.
 */

/** Directory that relative paths start from. */
const workFolder = "/work";

/** Depth of directories that are removed recursively. */
const maxDepth = 256;

/** Runs an operation beneath `root`, the path of a directory. Throws {@link FileError}. */
export function runFileOperation(root: string, operation: FileOperation): FileResult {
  try {
    return new SandboxFiles(root).run(operation);
  } catch (error) {
    throw fileError(operation.path, error);
  }
}

class SandboxFiles {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  run(operation: FileOperation): FileResult {
    const path = checkPath(operation.path);
    switch (operation.kind) {
      case "stat":
        return this.#stat(path);
      case "list":
        return this.#list(path);
      case "read":
        return this.#read(path, operation.offset, operation.inode);
      case "write":
        return this.#write(path, operation.upload, operation.offset, operation.data);
      case "commit":
        return this.#commit(path, operation.upload, operation.mode);
      case "abort":
        return this.#inParent(path, (folder) => unlinkSync(`${folder}/${uploadName(operation.upload)}`));
      case "remove":
        return this.#inParent(path, (folder, name) => remove(folder, name, operation.isRecursive ? maxDepth : 0));
      case "make-directory": {
        using _folder = this.#open(path, { kind: "directory", create: { directoryMode: 0o755, fileMode: 0o644 } });
        return this.#stat(path);
      }
    }
  }

  #open(path: string, options: OpenBeneathOptions = {}): ReturnType<typeof openBeneath> {
    return openBeneath(this.#root, path, { ...options, absoluteLinks: "beneath" });
  }

  #stat(path: string): FileResult {
    using found = this.#open(path);
    return { info: infoOf(nameOf(path) || "/", found.stats) };
  }

  #list(path: string): FileResult {
    using folder = this.#open(path, { kind: "directory", flags: constants.O_RDONLY | constants.O_DIRECTORY });
    const entries: FileInfo[] = [];
    const opened = opendirSync(folder.path);
    try {
      for (let entry = opened.readSync(); entry !== null; entry = opened.readSync()) {
        if (entries.length >= maxEntries) throw new FileError("TooLarge", `${path}: has more than ${maxEntries} entries`);
        const info = entryOf(folder.path, entry.name);
        if (info !== undefined) entries.push(info);
      }
    } finally {
      opened.closeSync();
    }
    return { entries: entries.sort((one, other) => (one.name < other.name ? -1 : 1)) };
  }

  #read(path: string, offset: number, inode: Inode | undefined): FileResult {
    using file = this.#open(path, { kind: "file", flags: constants.O_RDONLY | constants.O_NONBLOCK });
    // `stats` rounds inodes above 2^53.
    const current = inodeOf(fstatSync(file.fd, { bigint: true }).ino);
    if (inode !== undefined && current !== inode) throw new FileError("Conflict", `${path}: was replaced while it was read`);
    const data = Buffer.allocUnsafe(maxChunkBytes);
    const count = readSync(file.fd, data, 0, data.length, offset);
    return { data: data.subarray(0, count), inode: current, info: infoOf(nameOf(path), file.stats) };
  }

  #write(path: string, upload: string, offset: number, data: Uint8Array): FileResult {
    if (data.length > maxChunkBytes) throw new FileError("Invalid", `a chunk must not exceed ${maxChunkBytes} bytes`);
    return this.#inParent(path, (folder) => {
      const create = offset === 0 ? constants.O_CREAT | constants.O_EXCL : 0;
      const fd = openUpload(folder, upload, constants.O_WRONLY | create);
      try {
        for (let done = 0; done < data.length; ) done += writeSync(fd, data, done, data.length - done, offset + done);
      } finally {
        closeSync(fd);
      }
    });
  }

  #commit(path: string, upload: string, mode: number): FileResult {
    this.#inParent(path, (folder, name) => {
      const from = `${folder}/${uploadName(upload)}`;
      if (entryOf(folder, name)?.type === "directory") throw new FileError("Conflict", `${path}: is a directory`);
      const fd = openUpload(folder, upload, constants.O_RDONLY);
      try {
        fchmodSync(fd, mode & 0o777);
      } finally {
        closeSync(fd);
      }
      renameSync(from, `${folder}/${name}`);
    });
    return this.#stat(path);
  }

  /** Acts on an entry of a directory; `folder` is a path by descriptor. */
  #inParent(path: string, act: (folder: string, name: string) => void): FileResult {
    const name = nameOf(path);
    if (name === "" || name === "." || name === "..")
      throw new FileError("Invalid", `${path}: must name an entry of a directory`);
    using folder = this.#open(path.slice(0, Math.max(path.lastIndexOf("/"), 0)), {
      kind: "directory",
      flags: constants.O_RDONLY | constants.O_DIRECTORY,
    });
    act(folder.path, name);
    return {};
  }
}

/** The absolute path of a file in a sandbox; relative ones start from the work directory. Throws {@link FileError} if it cannot be a path. */
export function absolutePath(path: string): string {
  if (path === "" || path.includes("\0"))
    throw new FileError("Invalid", `path: ${JSON.stringify(path)} must be a path without NUL`);
  if (Buffer.byteLength(path) > maxPathBytes) throw new FileError("Invalid", `path: must not exceed ${maxPathBytes} bytes`);
  return path.startsWith("/") ? path : `${workFolder}/${path}`;
}

/** The path relative to the root, without slashes at the end. */
const checkPath = (path: string): string => absolutePath(path).replace(/^\/+|\/+$/g, "");

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** The name of a file that is being written. */
function uploadName(upload: string): string {
  if (!/^[0-9a-f]{32}$/.test(upload)) throw new FileError("Invalid", "upload: must be 32 hexadecimal digits");
  return `.keelson-upload-${upload}`;
}

/** Opens a file that is being written. Programs of the sandbox may have replaced it, and opening a pipe would wait for its other end. */
function openUpload(folder: string, upload: string, flags: number): number {
  const name = uploadName(upload);
  const fd = openSync(`${folder}/${name}`, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600);
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw new FileError("Conflict", `${name}: was replaced while it was written`);
}

/** Removes an entry of a directory that is given by descriptor. A link is removed, not followed. */
function remove(folder: string, name: string, depth: number): void {
  const path = `${folder}/${name}`;
  const info = lstatSync(path);
  if (!info.isDirectory()) return unlinkSync(path);
  if (depth > 0) {
    // A directory that is replaced by a link meanwhile is not opened.
    const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    try {
      const opened = opendirSync(`/proc/self/fd/${fd}`);
      const names: string[] = [];
      for (let entry = opened.readSync(); entry !== null; entry = opened.readSync()) names.push(entry.name);
      opened.closeSync();
      for (const each of names) remove(`/proc/self/fd/${fd}`, each, depth - 1);
    } finally {
      closeSync(fd);
    }
  }
  rmdirSync(path);
}

/** An entry of a directory; undefined if it was removed in the meantime. */
function entryOf(folder: string, name: string): FileInfo | undefined {
  try {
    const stats = lstatSync(`${folder}/${name}`);
    const info = infoOf(name, stats);
    return stats.isSymbolicLink() ? { ...info, target: readlinkSync(`${folder}/${name}`) } : info;
  } catch (error) {
    if (isSystemError(error) && (error.code === "ENOENT" || error.code === "EINVAL")) return undefined;
    throw error;
  }
}

function infoOf(name: string, stats: Stats): FileInfo {
  const type = stats.isFile() ? "file" : stats.isDirectory() ? "directory" : stats.isSymbolicLink() ? "symlink" : "other";
  return { name, type, sizeBytes: stats.size, mode: stats.mode & 0o7777, modifiedMs: Math.floor(stats.mtimeMs) };
}

const isSystemError = (error: unknown): error is Error & { readonly code: string } =>
  error instanceof Error && "code" in error && typeof error.code === "string";

const systemCodes: Readonly<Record<string, readonly [FileError["code"], string]>> = {
  ENOENT: ["NotFound", "no such file or directory"],
  EACCES: ["Denied", "permission denied"],
  EPERM: ["Denied", "operation not permitted"],
  EROFS: ["Denied", "read-only file system"],
  EEXIST: ["Conflict", "already exists"],
  ENOTEMPTY: ["Conflict", "directory not empty"],
  ENOTDIR: ["Conflict", "not a directory"],
  EISDIR: ["Conflict", "is a directory"],
  ELOOP: ["Conflict", "is a symbolic link"],
  ENXIO: ["Conflict", "is a pipe"],
  EBUSY: ["Conflict", "is in use"],
  ENOSPC: ["NoSpace", "no space left in the sandbox"],
  EDQUOT: ["NoSpace", "disk quota exceeded"],
  ENAMETOOLONG: ["Invalid", "name too long"],
};

const pathCodes: Readonly<Record<PathError["code"], FileError["code"]>> = {
  NotFound: "NotFound",
  NotDirectory: "Conflict",
  WrongKind: "Conflict",
  OutsideRoot: "Invalid",
  TooManyLinks: "Conflict",
};

/** The error of a system call on `path`. */
export function fileError(path: string, error: unknown): FileError {
  if (error instanceof FileError) return error;
  if (error instanceof PathError) return new FileError(pathCodes[error.code], error.message, { cause: error });
  const [code, text] = (isSystemError(error) ? systemCodes[error.code] : undefined) ?? ["Failed", "could not be used"];
  return new FileError(code, `${path}: ${text}`, { cause: error });
}
