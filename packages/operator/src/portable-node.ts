import { chmodSync, copyFileSync, mkdirSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";

/** Names of the files of {@link copyNode} below its directory. */
const names = { node: "node", loader: "loader", libraries: "lib" } as const;

/**
 * Copies this process's Node.js, its libraries and its loader into a directory, so that it runs in any image of the same architecture, also one
 * without a C library or a shell. {@link portableNode} is its command line.
 *
 * **Errors**: throws if the directory cannot be written, or if this Node.js has no dynamic loader.
 */
export function copyNode(folder: string): void {
  const libraries = join(folder, names.libraries);
  mkdirSync(libraries, { recursive: true });
  copyProgram(process.execPath, join(folder, names.node));
  const loaded = loadedLibraries();
  const loader = loaded.find((path) => /\/ld[-.]/.test(path));
  if (loader === undefined) throw new Error(`${process.execPath} has no dynamic loader that could be copied`);
  copyProgram(loader, join(folder, names.loader));
  for (const path of loaded) copyProgram(path, join(libraries, basename(path)));
}

/** The command line of the Node.js that {@link copyNode} copied into a directory, without arguments. */
export function portableNode(folder: string): readonly string[] {
  return [join(folder, names.loader), "--library-path", join(folder, names.libraries), join(folder, names.node)];
}

function copyProgram(path: string, target: string): void {
  copyFileSync(realpathSync(path), target);
  chmodSync(target, 0o755);
}

/** Paths of this process's shared libraries and its loader. Asks Node.js, because images need not contain `ldd`. */
function loadedLibraries(): readonly string[] {
  const report: unknown = process.report.getReport();
  const loaded = typeof report === "object" && report !== null && "sharedObjects" in report ? report.sharedObjects : undefined;
  // The list also has addons and the kernel's vdso, which is not a file.
  return Array.isArray(loaded)
    ? loaded.map(String).filter((path) => path.startsWith("/") && /\.so(?:\.|$)/.test(path) && !path.includes("/node_modules/"))
    : [];
}
