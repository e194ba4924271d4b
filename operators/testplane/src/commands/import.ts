import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CommandDefinition } from "@keelson/operator";
import { switchFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { TestFileError } from "./test-files.ts";
import { exit } from "./test-run.ts";

const outputFlag = textFlag({
  name: "output",
  short: "o",
  value: "DIR",
  description: "write each test to a file NAME.yaml of this directory (default: all tests to standard output)",
});
const accountFlag = textFlag({
  name: "service-account",
  value: "NAME",
  description: "run the tests in their own namespace with the permissions of this ServiceAccount",
});
const forceFlag = switchFlag({ name: "force", description: "overwrite files that exist" });
const strictFlag = switchFlag({ name: "strict", description: "exit with 1 if something could not be converted" });

/** `keelson testplane import PATHS...`. */
export const importCommand: CommandDefinition = {
  name: "import",
  description: "convert tests of chainsaw and kuttl, and mark what could not be converted",
  args: ["PATHS..."],
  usesCluster: false,
  flags: [outputFlag, forceFlag, accountFlag, strictFlag],
  async run({ args, flags, stdout, stderr }) {
    if (args.length === 0) throw new UsageError("import: name files or directories with tests of chainsaw or kuttl");
    const serviceAccount = accountFlag.read(flags);
    try {
      const { convertTests } = await import("../importing/convert-tests.ts");
      const tests = await convertTests(args, serviceAccount === undefined ? {} : { serviceAccount });
      if (tests.length === 0) throw new TestFileError(`${args.join(", ")}: contains no test of chainsaw or kuttl`);
      const folder = outputFlag.read(flags);
      if (folder === undefined) stdout.write(tests.map(({ yaml }) => yaml).join("---\n"));
      else {
        await mkdir(folder, { recursive: true });
        for (const { name, yaml } of tests) await writeTest(join(folder, `${name}.yaml`), yaml, forceFlag.read(flags));
      }
      for (const { path, name, problems } of tests)
        for (const problem of problems) stderr.write(`${path}: ${name}: not converted: ${problem}\n`);
      const whole = tests.filter(({ problems }) => problems.length === 0).length;
      stderr.write(`${whole} of ${tests.length} tests converted completely\n`);
      return whole < tests.length && strictFlag.read(flags) ? exit.failed : exit.succeeded;
    } catch (error) {
      if (!(error instanceof TestFileError)) throw error;
      stderr.write(`${error.message}\n`);
      return exit.bad;
    }
  },
};

/** **Errors**: a `TestFileError` if the file exists and must not be overwritten. */
async function writeTest(path: string, yaml: string, overwrites: boolean): Promise<void> {
  try {
    await writeFile(path, yaml, { flag: overwrites ? "w" : "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    throw new TestFileError(`${path} already exists; pass --force to overwrite it`, { cause: error });
  }
}
