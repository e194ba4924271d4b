import type { DeepReadonly } from "@keelson/api-machinery";
import type { CommandDefinition } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import { isFinished } from "../controllers/test-status.ts";
import { reportTest } from "../reports/report.ts";
import { type SelectedTest, selectionFlags, selectTests } from "./report.ts";
import type { TestManifest } from "./test-files.ts";
import { exit, TestRun, testRunFlags } from "./test-run.ts";

/** `keelson testplane rerun [NAMES...]`. */
export const rerunCommand: CommandDefinition = {
  name: "rerun",
  description: "run tests of the cluster again: those named, or with --failed all that did not succeed",
  args: ["[NAMES...]"],
  flags: [...selectionFlags, { name: "failed", description: "run the finished tests that did not succeed" }, ...testRunFlags],
  async run(context) {
    const { args, flags, signal, stderr } = context;
    const onlyFailed = flags["failed"] === true;
    if (args.length === 0 && !onlyFailed) throw new UsageError("rerun: name tests, or pass --failed");
    const client = await context.client();
    try {
      const found = await selectTests(client, flags, args, signal);
      const chosen = onlyFailed ? found.filter(hasFailed) : found;
      if (chosen.length === 0) {
        stderr.write("no test has failed\n");
        return exit.succeeded;
      }
      return await new TestRun(context, client, chosen.map(manifestOf)).run();
    } finally {
      await client.close();
    }
  },
};

const hasFailed = ({ test }: SelectedTest): boolean => isFinished(test.object?.status) && !reportTest(test).isSuccess;

/** The test as it was created. */
function manifestOf({ namespace, test }: SelectedTest): TestManifest {
  const { metadata, spec } = (test.object ?? {}) as DeepReadonly<NonNullable<SelectedTest["test"]["object"]>>;
  const labels = { ...metadata.labels };
  return { kind: test.kind, name: test.name, namespace, labels, source: "the cluster", spec } as TestManifest;
}
