import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { CommandDefinition } from "@keelson/operator";
import { podProgram } from "../controllers/pod-program-path.ts";

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
    copyTools(args[0] ?? "", process.execPath);
    return Promise.resolve(0);
  },
};

/** Copies the programs. The folder then has `keelson-mpi`, whose argument is `launcher` or `worker`. */
export function copyTools(folder: string, node: string): void {
  const libraries = join(folder, "lib");
  mkdirSync(libraries, { recursive: true });
  cpSync(dirname(podProgram), join(folder, "launch"), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type":"module"}\n');
  copyFileSync(realpathSync(node), join(folder, "node"));
  chmodSync(join(folder, "node"), 0o755);
  let loader: string | undefined;
  // Lines of ldd: `libm.so.6 => /lib/.../libm.so.6 (0x...)`, and for the loader `/lib64/ld-linux-x86-64.so.2 (0x...)`.
  for (const line of execFileSync("ldd", [node], { encoding: "utf8" }).split("\n")) {
    const path = /(?:=>\s*|^\s*)(\/\S+)\s+\(0x/.exec(line)?.[1];
    if (path === undefined) continue;
    copyFileSync(realpathSync(path), join(libraries, basename(path)));
    chmodSync(join(libraries, basename(path)), 0o755);
    if (/\/ld[-.]/.test(path)) loader = basename(path);
  }
  const start = loader === undefined ? '"$here/node"' : `"$here/lib/${loader}" --library-path "$here/lib" "$here/node"`;
  writeFileSync(join(folder, "keelson-mpi"), `#!/bin/sh\nhere=\${0%/*}\nexec ${start} "$here/launch/pod-program.js" "$@"\n`);
  chmodSync(join(folder, "keelson-mpi"), 0o755);
}
