import type { DeepReadonly } from "@keelson/api-machinery";
import type { CommandDefinition } from "@keelson/operator";
import { countFlag, UsageError } from "@keelson/operator/flags";
import { group, version, wholeSpecAnnotation } from "../api/names.ts";
import { isFinished } from "../controllers/test-status.ts";
import { reportTest } from "../reports/report.ts";
import { scenarioOf } from "../templating/test-variables.ts";
import { type SelectedTest, selectionFlags, selectTests } from "./report.ts";
import type { TestManifest } from "./test-files.ts";
import { exit, TestRun, testRunFlags } from "./test-run.ts";

const roundFlag = countFlag({
  name: "round",
  value: "N",
  description: "run only the N-th round of the test, with the parameters of its scenario",
  min: 1,
});

/** `keelson testplane rerun [NAMES...]`. */
export const rerunCommand: CommandDefinition = {
  name: "rerun",
  description:
    "rerun tests in the cluster: the named ones, with --failed those that did not succeed, or with --round a single round",
  args: ["[NAMES...]"],
  flags: [
    ...selectionFlags,
    { name: "failed", description: "run the finished tests that did not succeed" },
    roundFlag,
    ...testRunFlags,
  ],
  async run(context) {
    const { args, flags, signal, stderr } = context;
    const onlyFailed = flags["failed"] === true;
    const round = roundFlag.read(flags);
    if (round !== undefined && (args.length !== 1 || onlyFailed)) throw new UsageError("--round: name one test");
    if (args.length === 0 && !onlyFailed) throw new UsageError("rerun: name tests, or pass --failed");
    const client = await context.client();
    try {
      const found = await selectTests(client, flags, args, signal);
      const chosen = onlyFailed ? found.filter(hasFailed) : found;
      if (chosen.length === 0) {
        stderr.write("no test has failed\n");
        return exit.succeeded;
      }
      const manifests = chosen.map(manifestOf);
      return await new TestRun(context, client, round === undefined ? manifests : manifests.map(roundOf(round))).run();
    } finally {
      await client.close();
    }
  },
};

/** The test with only one of its rounds, with the parameters of that round. An annotation keeps the whole spec for the next run. */
const roundOf =
  (round: number) =>
  (manifest: TestManifest): TestManifest => {
    if (manifest.kind !== "IntegrationTest")
      throw new UsageError(`--round: ${manifest.name} is a LoadTest, which has no rounds`);
    const { repeat, scenarios, ttlSecondsAfterFinished: _, ...spec } = manifest.spec;
    const rounds = (repeat === undefined ? 1 : (repeat.count ?? 0)) * (scenarios?.length ?? 1);
    if (rounds > 0 && round > rounds) throw new UsageError(`--round: ${manifest.name} has ${rounds} rounds`);
    const whole = JSON.stringify(manifest.spec);
    if (Buffer.byteLength(whole) > maxWholeSpecBytes)
      throw new UsageError(
        `--round: the spec of ${manifest.name} must be at most ${maxWholeSpecBytes / 1_024} KiB, to keep it in an annotation`,
      );
    const scenario = scenarioOf(manifest.spec, round);
    return {
      ...manifest,
      annotations: { [wholeSpecAnnotation]: whole },
      spec: { ...spec, ...(scenario === undefined ? {} : { scenarios: [scenario] }) } as typeof spec,
    };
  };

const hasFailed = ({ test }: SelectedTest): boolean => isFinished(test.object?.status) && !reportTest(test).isSuccess;

/** All annotations of an object may have 256 KiB. */
const maxWholeSpecBytes = 192 * 1_024;

function parseSpec(text: string, name: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new UsageError(`${name}: the annotation ${wholeSpecAnnotation} must be JSON`, { cause: error });
  }
}

/** The test as it was created, with all of its rounds. */
function manifestOf({ namespace, test }: SelectedTest): TestManifest {
  const { metadata, spec: own } = (test.object ?? {}) as DeepReadonly<NonNullable<SelectedTest["test"]["object"]>>;
  const labels = { ...metadata.labels };
  const whole = metadata.annotations?.[wholeSpecAnnotation];
  const spec = whole === undefined ? own : parseSpec(whole, test.name);
  const { kind, name } = test;
  const original = { apiVersion: `${group}/${version}`, kind, metadata: { name, namespace, labels }, spec };
  return { kind, name, namespace, labels, source: "the cluster", spec, original } as TestManifest;
}
