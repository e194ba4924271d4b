import type { CommandDefinition } from "@keelson/operator";
import type { KindSchemas } from "../manifests/validate-known-kinds.ts";
import { readSources, TestFileError } from "./test-files.ts";

/**
 * Creates `keelson testplane validate PATHS...`. `stdin` is read for the path `-`. `loadSchemas` imports the schemas that manifests in tests are
 * checked against.
 */
export function createValidateCommand(
  stdin: NodeJS.ReadableStream,
  loadSchemas: (() => Promise<KindSchemas>) | undefined,
): CommandDefinition {
  return {
    name: "validate",
    description:
      "report every mistake in the tests of files, directories or standard input (-) with line and column; exits with 2 if there are any",
    args: ["PATHS..."],
    usesCluster: false,
    flags: [
      {
        name: "namespace",
        short: "n",
        value: "NAME",
        description: "namespace of tests without metadata.namespace",
        default: "default",
      },
    ],
    async run({ args, flags, stdout, stderr }) {
      try {
        // The schemas and CEL are only needed by this command.
        const { findMistakes } = await import("./find-mistakes.ts");
        const sources = await readSources(args, stdin);
        const schemaOf = await loadSchemas?.();
        const findings = sources.map((source) => findMistakes(source, String(flags["namespace"] ?? "default"), schemaOf));
        const mistakes = findings.flatMap((each) => each.mistakes);
        for (const { source, line, column, message } of mistakes) stderr.write(`${source}:${line}:${column}: ${message}\n`);
        const tests = findings.reduce((sum, each) => sum + each.tests, 0);
        if (mistakes.length > 0 || tests === 0) {
          if (tests === 0 && mistakes.length === 0) stderr.write(`${args.join(", ")}: contains no test\n`);
          return 2;
        }
        stdout.write(`${tests} ${tests === 1 ? "test is" : "tests are"} valid\n`);
        return 0;
      } catch (error) {
        if (!(error instanceof TestFileError)) throw error;
        stderr.write(`${error.message}\n`);
        return 2;
      }
    },
  };
}
