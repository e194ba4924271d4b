/* Shared by the generators in this directory: writes their files or, with `--check`, fails if one is stale, missing or left over. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { root } from "./steps.mjs";

/** The files of a generator. Paths are relative to the repository's root. */
export class GeneratedFiles {
  #isCheck = process.argv.includes("--check");
  #written = new Set();
  #stale = [];

  /** Writes a file unless it is up to date. */
  write(path, text) {
    this.#written.add(path);
    const file = join(root, path);
    if (unlessAbsent(() => readFileSync(file, "utf8"), undefined) === text) return;
    if (this.#isCheck) {
      this.#stale.push(path);
      return;
    }
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  /** Deletes the files of a directory that were not written. */
  removeOthers(folder) {
    const entries = unlessAbsent(() => readdirSync(join(root, folder), { withFileTypes: true, recursive: true }), []);
    for (const entry of entries) {
      const file = join(entry.parentPath, entry.name);
      const path = relative(root, file);
      if (!entry.isFile() || this.#written.has(path)) continue;
      if (this.#isCheck) this.#stale.push(path);
      else rmSync(file);
    }
  }

  /** Reports stale files and sets the exit status. `script`: the name of the generator. */
  finish(script) {
    if (this.#stale.length === 0) return;
    console.error(`stale: ${this.#stale.join(", ")}; run node scripts/${script} after the build`);
    process.exitCode = 1;
  }
}

function unlessAbsent(act, otherwise) {
  try {
    return act();
  } catch (error) {
    if (error.code === "ENOENT") return otherwise;
    throw error;
  }
}
