import { link, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { create } from "tar";

/** A part of the report that could not be read. */
export interface ReportFailure {
  readonly path: string;
  readonly message: string;
}

/** Collects the files of a report and writes them as one archive. */
export class ReportFiles {
  readonly #signal: AbortSignal;
  readonly #files = new Map<string, string>();
  readonly #failures: ReportFailure[] = [];

  /** @param signal Aborts the collection. */
  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** Paths of the files, in the order in which they were added. */
  get paths(): readonly string[] {
    return [...this.#files.keys()];
  }

  /** The parts that could not be read. */
  get failures(): readonly ReportFailure[] {
    return this.#failures;
  }

  /** Adds a file with text, or with another value as JSON. If `read` rejects, the failure is recorded instead. Rejects only if aborted. */
  async add(path: string, read: () => unknown): Promise<void> {
    try {
      const content = await read();
      this.#files.set(path, typeof content === "string" ? content : `${JSON.stringify(content, undefined, 2)}\n`);
    } catch (error) {
      this.#signal.throwIfAborted();
      this.#failures.push({ path, message: error instanceof Error ? error.message : String(error) });
    }
  }

  /**
   * Writes a gzipped tar archive that only its owner can read, with all files in the directory `root`. The file appears when it is complete.
   * Resolves to its size in bytes. **Errors**: rejects with `EEXIST` if the file exists.
   */
  async write(file: string, root: string): Promise<number> {
    const target = resolve(file);
    const folder = await mkdtemp(join(dirname(target), ".keelson-bug-report-"));
    try {
      const contents = [...this.#files, ["failures.json", `${JSON.stringify(this.#failures, undefined, 2)}\n`] as const];
      for (const [path, content] of contents) {
        const name = join(folder, root, path);
        await mkdir(dirname(name), { recursive: true });
        await writeFile(name, content);
      }
      const archive = join(folder, "archive");
      await create({ file: archive, cwd: folder, gzip: true, portable: true, mode: 0o600 }, [root]);
      this.#signal.throwIfAborted();
      await link(archive, target);
      return (await stat(target)).size;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}
