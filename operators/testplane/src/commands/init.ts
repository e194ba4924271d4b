import { writeFile } from "node:fs/promises";
import type { CommandDefinition } from "@keelson/operator";
import { switchFlag, UsageError } from "@keelson/operator/flags";
import { starterTest } from "./starter-test.ts";
import { exit } from "./test-run.ts";

const forceFlag = switchFlag({ name: "force", description: "overwrite the file if it exists" });

/** `keelson testplane init [FILE]`. */
export const initCommand: CommandDefinition = {
  name: "init",
  description: "write a commented test to start from (default: test.yaml)",
  args: ["[FILE]"],
  usesCluster: false,
  flags: [forceFlag],
  async run({ args: [file = "test.yaml", ...more], flags, stdout, stderr }) {
    if (more.length > 0) throw new UsageError("init: takes at most one file");
    try {
      await writeFile(file, starterTest, { flag: forceFlag.read(flags) ? "w" : "wx" });
    } catch (error) {
      const exists = (error as NodeJS.ErrnoException).code === "EEXIST";
      const message = exists
        ? "already exists; overwrite it with --force"
        : error instanceof Error
          ? error.message
          : String(error);
      stderr.write(`${file}: ${message}\n`);
      return exit.bad;
    }
    stdout.write(`${file} written; run it: keelson test run ${file}\n`);
    return exit.succeeded;
  },
};
