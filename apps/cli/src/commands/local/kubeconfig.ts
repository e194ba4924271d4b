import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { FlagValues } from "@keelson/operator";
import { switchFlag } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../../command-line.ts";
import { dataDirFlag } from "./data-dir-flag.ts";
import type { DefineCommand } from "../commands.ts";

const pathFlag = switchFlag({ name: "path", description: "print the path instead of the content" });
const exportFlag = switchFlag({ name: "export", description: "print a shell command that sets KUBECONFIG" });

/** Defines `keelson kubeconfig`. */
export const defineKubeconfigCommand: DefineCommand = (command) => {
  for (const flag of [dataDirFlag, pathFlag, exportFlag]) addFlag(command, flag);
  command.action(() => void process.stdout.write(textOf(flagValues(command))));
};

function textOf(flags: FlagValues): string {
  const dataDir = resolve(dataDirFlag.read(flags));
  const path = join(dataDir, "kubeconfig");
  const content = readOrFail(path, dataDir);
  if (pathFlag.read(flags)) return `${path}\n`;
  if (exportFlag.read(flags)) return `export KUBECONFIG='${path.replaceAll("'", "'\\''")}'\n`;
  return content;
}

function readOrFail(path: string, dataDir: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
    if (!isMissing) throw error;
    throw new Error(`keelson up has not run in ${dataDir} yet: start it, or set --data-dir`, { cause: error });
  }
}
