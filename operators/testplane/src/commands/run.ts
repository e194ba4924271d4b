import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { validateIntegrationTest } from "../manifests/validate-integration-test.ts";
import { validateLoadTest } from "../manifests/validate-load-test.ts";
import { chooseTests, selectorFlag, shardFlag } from "./choose-tests.ts";
import { readTests, TestFileError, type TestManifest } from "./test-files.ts";
import { parameterFlag, withParameters } from "./test-parameters.ts";
import { exit, TestRun, testRunFlags } from "./test-run.ts";

/** Creates `keelson testplane run PATH...`. `stdin` is read for the path `-`. */
export function createRunCommand(stdin: NodeJS.ReadableStream): CommandDefinition {
  return {
    name: "run",
    description:
      "run the tests of files, directories or standard input (-) and print their progress; exits with 0 if all succeeded",
    args: ["PATHS..."],
    flags: [
      {
        name: "namespace",
        short: "n",
        value: "NAME",
        description: "namespace of tests without metadata.namespace",
        default: "default",
      },
      selectorFlag,
      shardFlag,
      parameterFlag,
      ...testRunFlags,
    ],
    run: (context) => run(context, stdin),
  };
}

async function run(context: CommandContext, stdin: NodeJS.ReadableStream): Promise<number> {
  const { args, flags, stderr } = context;
  let manifests: readonly TestManifest[];
  try {
    const { tests, ignored } = await readTests(args, stdin);
    for (const each of ignored) stderr.write(`${each} is not a test; ignored\n`);
    manifests = tests;
  } catch (error) {
    if (!(error instanceof TestFileError)) throw error;
    stderr.write(`${error.message}\n`);
    return exit.bad;
  }
  manifests = withParameters(manifests, flags);
  const namespace = String(flags["namespace"] ?? "default");
  const errors = [...duplicates(manifests, namespace), ...manifests.flatMap((manifest) => validate(manifest, namespace))];
  for (const error of errors) stderr.write(`${error}\n`);
  if (errors.length > 0) return exit.bad;
  const chosen = chooseTests(manifests, flags);
  if (chosen.length === 0) {
    stderr.write(`none of ${manifests.length} tests is selected\n`);
    return exit.succeeded;
  }
  return new TestRun(context, await context.client(), chosen).run();
}

/** Errors of a test that the API server would not report, or not with a suggestion. */
function validate(manifest: TestManifest, defaultNamespace: string): readonly string[] {
  const namespace = manifest.namespace ?? defaultNamespace;
  try {
    const errors =
      manifest.kind === "IntegrationTest"
        ? validateIntegrationTest(manifest.spec, namespace)
        : validateLoadTest(manifest.spec, namespace);
    return errors.map((error) => `${manifest.source}: ${manifest.name}: ${error}`);
  } catch (error) {
    // A field has the wrong type. The API server reports it by the schema.
    if (error instanceof TypeError) return [];
    throw error;
  }
}

function duplicates(manifests: readonly TestManifest[], defaultNamespace: string): readonly string[] {
  const sources = new Map<string, string>();
  return manifests.flatMap(({ kind, name, namespace = defaultNamespace, source }) => {
    const id = `${kind}/${namespace}/${name}`;
    const first = sources.get(id);
    sources.set(id, first ?? source);
    return first === undefined ? [] : [`${source}: ${name}: metadata.name: must be unique; also used in ${first}`];
  });
}
