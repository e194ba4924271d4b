import { chmodSync, copyFileSync, cpSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { CommandDefinition } from "@keelson/operator";
import { podProgram } from "../children/pod-program-path.ts";

/**
 * `keelson mpi copy-tools DIR`: copies the launcher and worker programs into a folder, with Node, its libraries and its loader, so that they
 * run in any image of the same architecture.
 */
export const copyToolsCommand: CommandDefinition = {
  name: "copy-tools",
  isInternal: true,
  description: "copy the launcher and worker programs into a folder (for init containers)",
  args: ["DIR"],
  run({ args }) {
    copyTools(args[0] ?? "");
    return Promise.resolve(0);
  },
};

/** Copies the programs and this process's Node. The folder then has `keelson-mpi`, whose argument is `launcher` or `worker`. */
export function copyTools(folder: string): void {
  const libraries = join(folder, "lib");
  mkdirSync(libraries, { recursive: true });
  cpSync(dirname(podProgram), join(folder, "launch"), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type":"module"}\n');
  copyFileSync(realpathSync(process.execPath), join(folder, "node"));
  chmodSync(join(folder, "node"), 0o755);
  let loader: string | undefined;
  for (const path of loadedLibraries()) {
    const target = join(libraries, basename(path));
    copyFileSync(realpathSync(path), target);
    chmodSync(target, 0o755);
    if (/\/ld[-.]/.test(path)) loader = basename(path);
  }
  const start = loader === undefined ? '"$here/node"' : `"$here/lib/${loader}" --library-path "$here/lib" "$here/node"`;
  writeFileSync(
    join(folder, "keelson-mpi"),
    `#!/bin/sh\nhere=\${0%/*}\nexec ${start} "$here/launch/${basename(podProgram)}" "$@"\n`,
  );
  chmodSync(join(folder, "keelson-mpi"), 0o755);
}

/** Paths of this process's shared libraries and its loader. Asks Node, because images need not contain `ldd`. */
function loadedLibraries(): readonly string[] {
  const report: unknown = process.report.getReport();
  const loaded = typeof report === "object" && report !== null && "sharedObjects" in report ? report.sharedObjects : undefined;
  // The list also has addons and the kernel's vdso, which is not a file.
  return Array.isArray(loaded) ? loaded.map(String).filter((path) => path.startsWith("/") && /\.so(?:\.|$)/.test(path)) : [];
}
