import { closeSync, constants, fstatSync, mkdirSync, openSync, readlinkSync } from "node:fs";
import type { Stats } from "node:fs";
import { errorCode } from "./file-error.ts";
import { PathError } from "./path-error.ts";

/** Options of {@link openBeneath}. */
export interface OpenBeneathOptions {
  /** What the target must be. Default: `any`, which excludes devices and sockets only if `flags` are set. */
  readonly kind?: "any" | "directory" | "file";
  /** Flags of open(2) for the target, such as `constants.O_RDONLY`. Default: O_PATH, which needs no permission on the file itself. */
  readonly flags?: number;
  /** Creates a missing target, and its missing parents, with these modes: a directory for kind `directory`, an empty file for `file`. */
  readonly create?: { readonly directoryMode: number; readonly fileMode: number };
  /**
   * `reject`: absolute symbolic links, and `..` above the root, are errors. `beneath`: they stay within the root, as if it were `/`
   * (RESOLVE_IN_ROOT). Default: `reject`.
   */
  readonly absoluteLinks?: "reject" | "beneath";
}

/** An open file or directory that was reached beneath a root. */
export interface OpenedBeneath {
  readonly fd: number;
  /** `/proc/self/fd/N`: refers to the opened inode itself, whatever happens to its path. Valid until `close`, in this process. */
  readonly path: string;
  readonly stats: Stats;
  close(): void;
  [Symbol.dispose](): void;
}

/** The kernel's limit of symbolic links in one path. */
const maxLinks = 40;

/** open(2) flag that Node.js does not name; the same on every architecture that Node.js supports. */
const O_PATH = 0o10000000;

/** Attempts to open one component that another process keeps changing. */
const maxAttempts = 64;

const descriptorPath = (fd: number): string => `/proc/self/fd/${fd}`;

/**
 * Opens a path beneath a directory with the semantics of openat2(2) RESOLVE_BENEATH, which Node.js does not offer: every component is
 * opened relative to its parent's descriptor without following links, and symbolic links are resolved here. Absolute links, and `..`
 * above the root, are errors. A process that replaces components concurrently can make the call fail, but never lets it leave the
 * root: `..` returns to a descriptor that was already passed, not to whatever the directory's parent is by now.
 *
 * `root` itself is trusted and may contain links. Needs Linux with /proc.
 *
 * **Errors**: {@link PathError}; system errors such as EACCES are passed on.
 *
 * **Example**
 *
 * ```ts
 * using config = openBeneath("/var/lib/volume", "sub/config.json", { kind: "file", flags: constants.O_RDONLY });
 * const text = readFileSync(config.fd, "utf8");
 * ```
 */
export function openBeneath(root: string, path: string, options: OpenBeneathOptions = {}): OpenedBeneath {
  using walk = new Walk(root, path, options);
  return walk.run();
}

/** One resolution: a stack of descriptors from the root to the current directory. */
class Walk implements Disposable {
  readonly #path: string;
  readonly #options: OpenBeneathOptions;
  /** Components still to visit, last first. */
  readonly #pending: string[];
  readonly #stack: number[] = [];
  #links = 0;

  constructor(root: string, path: string, options: OpenBeneathOptions) {
    this.#path = path;
    this.#options = options;
    this.#pending = this.#split(path, false);
    this.#stack.push(openSync(root, O_PATH | constants.O_DIRECTORY));
  }

  run(): OpenedBeneath {
    for (let name = this.#pending.pop(); name !== undefined; name = this.#pending.pop()) {
      if (name === "..") this.#leave();
      else this.#enter(name);
    }
    return this.#finish();
  }

  [Symbol.dispose](): void {
    for (const fd of this.#stack.splice(0)) closeSync(fd);
  }

  #split(path: string, isLink: boolean): string[] {
    if (path.startsWith("/") && !(isLink && this.#isRoot))
      throw new PathError("OutsideRoot", `${this.#path}: ${path} is absolute`);
    if (path.includes("\0")) throw new PathError("NotFound", `${JSON.stringify(path)}: contains a NUL character`);
    return path
      .split("/")
      .filter((name) => name !== "" && name !== ".")
      .reverse();
  }

  /** Whether links see the root as `/`. */
  get #isRoot(): boolean {
    return this.#options.absoluteLinks === "beneath";
  }

  get #current(): number {
    const fd = this.#stack.at(-1);
    if (fd === undefined) throw new PathError("OutsideRoot", `${this.#path}: leaves the root`);
    return fd;
  }

  #leave(): void {
    if (this.#stack.length <= 1) {
      if (this.#isRoot) return;
      throw new PathError("OutsideRoot", `${this.#path}: leaves the root`);
    }
    const fd = this.#stack.pop();
    if (fd !== undefined) closeSync(fd);
  }

  /** Continues at the root. */
  #restart(): void {
    for (const fd of this.#stack.splice(1)) closeSync(fd);
  }

  #enter(name: string): void {
    const isLast = !this.#pending.some((each) => each !== "..");
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const fd = this.#open(name, isLast);
      if (fd === undefined) continue;
      const stats = fstatSync(fd);
      if (!stats.isSymbolicLink()) {
        this.#stack.push(fd);
        if (!stats.isDirectory() && this.#pending.length > 0)
          throw new PathError("NotDirectory", `${this.#path}: ${name} is not a directory`);
        return;
      }
      closeSync(fd);
      const target = this.#readLink(name);
      // The link was replaced since it was opened: look again.
      if (target === undefined) continue;
      if (++this.#links > maxLinks) throw new PathError("TooManyLinks", `${this.#path}: more than ${maxLinks} symbolic links`);
      const names = this.#split(target, true);
      if (target.startsWith("/")) this.#restart();
      this.#pending.push(...names);
      return;
    }
    throw new PathError("NotFound", `${this.#path}: ${name} keeps changing`);
  }

  /** The descriptor of a component, created if requested; undefined if it was changed concurrently. */
  #open(name: string, isLast: boolean): number | undefined {
    const path = `${descriptorPath(this.#current)}/${name}`;
    try {
      return openSync(path, O_PATH | constants.O_NOFOLLOW);
    } catch (error) {
      if (errorCode(error) === "ENOTDIR")
        throw new PathError("NotDirectory", `${this.#path}: not a directory`, { cause: error });
      if (errorCode(error) !== "ENOENT") throw error;
      const { create, kind } = this.#options;
      if (create === undefined) throw new PathError("NotFound", `${this.#path}: ${name} not found`, { cause: error });
      try {
        if (isLast && kind === "file") {
          closeSync(
            openSync(path, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW, create.fileMode),
          );
        } else mkdirSync(path, { mode: create.directoryMode });
      } catch (createError) {
        if (errorCode(createError) !== "EEXIST") throw createError;
      }
      return undefined;
    }
  }

  #readLink(name: string): string | undefined {
    try {
      return readlinkSync(`${descriptorPath(this.#current)}/${name}`);
    } catch (error) {
      if (errorCode(error) === "EINVAL" || errorCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  #finish(): OpenedBeneath {
    const { kind = "any", flags } = this.#options;
    const target = this.#current;
    const found = fstatSync(target);
    if (kind === "directory" && !found.isDirectory()) throw new PathError("NotDirectory", `${this.#path}: not a directory`);
    if (kind === "file" && !found.isFile()) throw new PathError("WrongKind", `${this.#path}: not a regular file`);
    if (flags !== undefined && !found.isFile() && !found.isDirectory()) {
      throw new PathError("WrongKind", `${this.#path}: neither a regular file nor a directory`);
    }
    let fd = target;
    if (flags === undefined) this.#stack.pop();
    // The descriptor's own entry in /proc leads to this inode, not to a path.
    else fd = openSync(descriptorPath(target), flags & ~constants.O_CREAT & ~constants.O_EXCL & ~constants.O_NOFOLLOW);
    return opened(fd, found);
  }
}

function opened(fd: number, stats: Stats): OpenedBeneath {
  let isOpen = true;
  const close = (): void => {
    if (isOpen) closeSync(fd);
    isOpen = false;
  };
  return { fd, path: descriptorPath(fd), stats, close, [Symbol.dispose]: close };
}
