import { chmodSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { CommandDefinition } from "@keelson/operator";
import { copyNode, portableNode } from "@keelson/operator/portable-node";

/**
 * `keelson mpi copy-tools DIR`: copies the launcher and worker programs into a directory, with Node, its libraries and its loader, so that they
 * run in any image of the same architecture. `podProgram` is the path of the program that is both, with its modules alongside it.
 */
export function createCopyToolsCommand(podProgram: string): CommandDefinition {
  return {
    name: "copy-tools",
    isInternal: true,
    description: "copy the launcher and worker programs into a directory (for init containers)",
    args: ["DIR"],
    run({ args }) {
      copyTools(args[0] ?? "", podProgram);
      return Promise.resolve(0);
    },
  };
}

/**
 * Copies the directory of `podProgram` and this process's Node. The directory then has `keelson-mpi`, whose argument is `launcher` or `worker`.
 */
export function copyTools(folder: string, podProgram: string): void {
  mkdirSync(folder, { recursive: true });
  copyNode(folder);
  cpSync(dirname(podProgram), join(folder, "launch"), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type":"module"}\n');
  const node = portableNode("$here")
    .map((part) => `"${part}"`)
    .join(" ");
  writeFileSync(
    join(folder, "keelson-mpi"),
    `#!/bin/sh\nhere=\${0%/*}\nexec ${node} "$here/launch/${basename(podProgram)}" "$@"\n`,
  );
  chmodSync(join(folder, "keelson-mpi"), 0o755);
}
