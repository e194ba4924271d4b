import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { CommandDefinition } from "@keelson/operator";
import { podProgram } from "../controllers/pod-program-path.ts";

/**
 * `keelson mpi copy-tools DIR`: puts launcher and worker into a folder so that they run in any image with the same kernel and
 * machine, whatever libraries it has: our files, Node, and the libraries and the loader that Node needs.
 */
export const copyToolsCommand: CommandDefinition = {
  name: "copy-tools",
  isInternal: true,
  description: "put launcher and worker into a folder that Pods of any image can have (for init containers)",
  args: ["DIR"],
  run({ args }) {
    copyTools(args[0] ?? "", process.execPath);
    return Promise.resolve(0);
  },
};

/** Copies the tools. The folder then has `keelson-mpi`, which takes `launcher` or `worker`. */
export function copyTools(folder: string, node: string): void {
  const libraries = join(folder, "lib");
  mkdirSync(libraries, { recursive: true });
  cpSync(dirname(podProgram), join(folder, "launch"), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type":"module"}\n');
  copyFileSync(realpathSync(node), join(folder, "node"));
  chmodSync(join(folder, "node"), 0o755);
  let loader: string | undefined;
  // `libm.so.6 => /lib/.../libm.so.6 (0x...)`, and the loader alone: `/lib64/ld-linux-x86-64.so.2 (0x...)`.
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
