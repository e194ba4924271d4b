import { spawnSync } from "node:child_process";

/** Maximum number of files for one call of `ldd`. */
const filesPerCall = 50;

/**
 * Paths of the shared libraries that programs and libraries need, with the loader. Files that are not linked dynamically need none.
 *
 * **Errors**: one that names the first library that is missing.
 */
export function sharedLibrariesOf(files: readonly string[]): readonly string[] {
  const found = new Set<string>();
  for (let start = 0; start < files.length; start += filesPerCall) {
    const { stdout, error } = spawnSync("ldd", files.slice(start, start + filesPerCall), { encoding: "utf8" });
    if (error !== undefined) throw error;
    for (const path of parseLibraries(stdout)) found.add(path);
  }
  return [...found].sort();
}

/** Parses lines of `ldd` such as `libm.so.6 => /lib/libm.so.6 (0x...)`. */
export function parseLibraries(output: string): readonly string[] {
  const missing = /^\s*(\S+) => not found$/m.exec(output)?.[1];
  if (missing !== undefined) throw new Error(`shared library ${missing} not found; install it, or set LD_LIBRARY_PATH`);
  return [...output.matchAll(/(?:=>\s*|^\s*)(\/\S+)\s+\(0x/gm)].map(([, path = ""]) => path);
}
