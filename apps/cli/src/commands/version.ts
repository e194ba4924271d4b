import { formatResult, outputFlag } from "@keelson/operator";
import { addFlag, flagValues } from "../command-line.ts";
import { keelsonVersion } from "../version.ts";
import type { DefineCommand } from "./commands.ts";

/** Defines `keelson version`. */
export const defineVersionCommand: DefineCommand = (command) => {
  addFlag(command, outputFlag);
  command.action(() => {
    const result = { version: keelsonVersion(), node: process.versions.node, platform: `${process.platform}/${process.arch}` };
    const text = (): string => `keelson ${result.version}, Node.js ${result.node}, ${result.platform}\n`;
    process.stdout.write(formatResult({ flags: flagValues(command) }, result, text));
  });
};
