import { readFileSync, statSync } from "node:fs";

/**
 * The file `current.json` in a directory of bundles. A bundle holds the modules of a program and their dependencies in few files, which load
 * several times as fast.
 */
export interface BundleRecord {
  /** Name of the bundle's directory. */
  readonly folder: string;
  /** Files that every build or installation rewrites, relative to the directory of bundles, with their modification times. */
  readonly inputs: readonly (readonly [path: string, mtimeMs: number])[];
}

/**
 * URL of this module of the bundle in this directory. `undefined` if there is no bundle, or if anything was built or installed after it: a
 * bundle is never older than the code.
 */
export function currentBundle(bundles: URL, module: string): string | undefined {
  try {
    const { folder, inputs } = JSON.parse(readFileSync(new URL("current.json", bundles), "utf8")) as BundleRecord;
    const isCurrent = inputs.every(([path, mtimeMs]) => statSync(new URL(path, bundles)).mtimeMs === mtimeMs);
    return isCurrent ? new URL(`${folder}/${module}`, bundles).href : undefined;
  } catch {
    // Not bundled, or an input was deleted.
    return undefined;
  }
}
