import { createHash } from "node:crypto";
import { fstatSync, openSync, readFileSync, readSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import vm from "node:vm";
import { crc32 } from "node:zlib";

/** Where a file's compiled code is, counted from the end of the index. */
type Place = readonly [offset: number, length: number, checksum: number];

/** A program that {@link loadBundledProgram} has loaded. */
export interface BundledProgram<Exports> {
  readonly exports: Exports;
  /**
   * Stores the compiled code of all files that the program has loaded, in steps, unless it was complete when they were loaded. Functions
   * that have never run are compiled again in the next process. Never rejects: without stored code, programs only start more slowly.
   */
  keepCompiledCode(): Promise<void>;
}

/**
 * Loads a module of a bundle of CommonJS files and runs it with the code that V8 compiled in an earlier process, which saves a fifth of the
 * processor time of a start. The compiled code is stored beside the bundle, under `name`: programs that run different parts of the same
 * files have different names. Code of another version of V8, or for other options, is never used.
 *
 * Instead of `import.meta`, the files use `bundleScope` (scripts/bundle.mjs).
 */
export function loadBundledProgram<Exports>(module: URL, name: string): BundledProgram<Exports> {
  const store = new CompiledCode(fileURLToPath(new URL(`code-${name}-${engine()}`, module)));
  const files = new BundleFiles(new URL("./", module), store);
  const file = fileURLToPath(module).split("/").at(-1) ?? "";
  return { exports: files.load(file) as Exports, keepCompiledCode: () => store.keep() };
}

/** What compiled code depends on, apart from the source: V8 rejects it otherwise. */
function engine(): string {
  const parts = [process.versions.v8, process.arch, process.env["NODE_OPTIONS"] ?? "", ...process.execArgv];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 12);
}

/** The files of a bundle, each run when it is first required. */
class BundleFiles {
  readonly #folder: URL;
  readonly #code: CompiledCode;
  readonly #require: NodeJS.Require;
  readonly #modules = new Map<string, { exports: unknown }>();
  readonly #scope: object;

  constructor(folder: URL, code: CompiledCode) {
    this.#folder = folder;
    this.#code = code;
    this.#require = createRequire(folder);
    this.#scope = {
      url: (path: string) => new URL(path, folder).href,
      resolve: (specifier: string) => import.meta.resolve(specifier),
      import: (specifier: string) => import(specifier),
    };
  }

  load(file: string): unknown {
    const known = this.#modules.get(file);
    if (known !== undefined) return known.exports;
    const path = fileURLToPath(new URL(file, this.#folder));
    // Bundles are ASCII, and V8 keeps a string of one byte per character as it is.
    const source = readFileSync(path, "latin1");
    const run = this.#code.compile(file, path, `(function (exports, require, module, bundleScope) {${source}\n})`);
    const module = { exports: {} as unknown };
    this.#modules.set(file, module);
    const require = (id: string): unknown => (id.startsWith("./") ? this.load(id.slice(2)) : this.#require(id));
    run.call(module.exports, module.exports, Object.assign(require, { resolve: this.#require.resolve }), module, this.#scope);
    return module.exports;
  }
}

type Wrapper = (this: unknown, exports: unknown, require: unknown, module: object, scope: object) => void;

/** Compiled code of files by name, in one file: the length of the index, the index as JSON, and the code. */
class CompiledCode {
  readonly #path: string;
  readonly #stored: StoredCode | undefined;
  readonly #scripts = new Map<string, vm.Script>();
  #isComplete = true;

  constructor(path: string) {
    this.#path = path;
    this.#stored = StoredCode.open(path);
  }

  compile(file: string, filename: string, source: string): Wrapper {
    const cachedData = this.#stored?.read(file);
    const script = new vm.Script(source, cachedData === undefined ? { filename } : { filename, cachedData });
    if (cachedData === undefined || script.cachedDataRejected) this.#isComplete = false;
    this.#scripts.set(file, script);
    return script.runInThisContext() as Wrapper;
  }

  async keep(): Promise<void> {
    if (this.#isComplete) return;
    this.#isComplete = true;
    const code = new Map<string, Buffer>();
    for (const file of this.#stored?.files() ?? []) {
      const stored = this.#stored?.read(file);
      if (stored !== undefined) code.set(file, stored);
    }
    for (const [file, script] of this.#scripts) {
      code.set(file, script.createCachedData());
      await nextTurn();
    }
    writeCode(this.#path, code);
  }
}

class StoredCode {
  readonly #descriptor: number;
  readonly #size: number;
  #start = 0;
  #places: ReadonlyMap<string, Place> = new Map();

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
    this.#size = fstatSync(descriptor).size;
  }

  /** `undefined` if nothing readable is stored. */
  static open(path: string): StoredCode | undefined {
    try {
      const stored = new StoredCode(openSync(path, "r"));
      const length = stored.#readAt(0, 4)?.readUInt32LE() ?? 0;
      const index = stored.#readAt(4, length)?.toString("latin1") ?? "[]";
      stored.#places = new Map(JSON.parse(index) as [string, Place][]);
      stored.#start = 4 + length;
      return stored;
    } catch {
      return undefined;
    }
  }

  files(): Iterable<string> {
    return this.#places.keys();
  }

  read(file: string): Buffer | undefined {
    const [offset = 0, length = 0, checksum] = this.#places.get(file) ?? [];
    const code = length === 0 ? undefined : this.#readAt(this.#start + offset, length);
    // V8 does not verify the code that it runs.
    return code !== undefined && crc32(code) === checksum ? code : undefined;
  }

  /** `undefined` if the file ends before. */
  #readAt(offset: number, length: number): Buffer | undefined {
    if (offset + length > this.#size) return undefined;
    const buffer = Buffer.allocUnsafeSlow(length);
    return readSync(this.#descriptor, buffer, 0, length, offset) === length ? buffer : undefined;
  }
}

/** Does nothing if the folder belongs to another user or the disk is full. */
function writeCode(path: string, code: ReadonlyMap<string, Buffer>): void {
  let offset = 0;
  const places = [...code].map(([file, part]): [string, Place] => {
    offset += part.length;
    return [file, [offset - part.length, part.length, crc32(part)]];
  });
  const index = Buffer.from(JSON.stringify(places), "latin1");
  const size = Buffer.alloc(4);
  size.writeUInt32LE(index.length);
  const draft = `${path}.${process.pid}.tmp`;
  try {
    // Later processes run it, so only its owner may write it, whatever the umask.
    writeFileSync(draft, Buffer.concat([size, index, ...code.values()]), { flag: "wx", flush: true, mode: 0o644 });
    renameSync(draft, path);
  } catch {
    rmSync(draft, { force: true });
  }
}
