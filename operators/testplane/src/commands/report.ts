import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import {
  allNamespacesFlag,
  type CommandDefinition,
  type FlagDefinition,
  listFlagsOf,
  listObjects,
  selectorFlag,
} from "@keelson/operator";
import { textFlag, UsageError } from "@keelson/operator/flags";
import { IntegrationTest } from "../api/integration-test.ts";
import { LoadTest } from "../api/load-test.ts";
import { markdownReport, roundsText } from "../reports/markdown.ts";
import { type ReportedTest, reportTest, type TestReport } from "../reports/report.ts";
import { reportFlags, writeReports } from "../reports/write-reports.ts";

const namespaceFlag = textFlag({
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the tests",
  default: "default",
});

/** Flags that select tests of the cluster. */
export const selectionFlags: readonly FlagDefinition[] = [namespaceFlag, allNamespacesFlag, selectorFlag];

const bundlesFlag = {
  name: "bundles",
  value: "DIR",
  description: "write the objects, events and logs of failed rounds below this directory",
} as const;

/** `keelson testplane report [NAMES...]`. */
export const reportCommand: CommandDefinition = {
  name: "report",
  description: "report on tests in the cluster: as Markdown, or to the files given by flags",
  args: ["[NAMES...]"],
  flags: [...selectionFlags, ...reportFlags, bundlesFlag],
  async run({ args, flags, stdout, signal, client: connect }) {
    const client = await connect();
    try {
      const tests = await selectTests(client, flags, args, signal);
      const reports = tests.map(({ namespace, test }) => reportTest({ ...test, namespace }));
      const { [bundlesFlag.name]: folder } = flags;
      if (typeof folder === "string") await writeBundles(client, tests, folder, stdout, signal);
      else if ((await writeReports(flags, reports)) === 0) stdout.write(markdownReport(reports));
      return 0;
    } finally {
      await client.close();
    }
  },
};

/** Writes the failure bundles of tests to directories `NAMESPACE.TEST`. */
async function writeBundles(
  client: Client,
  tests: readonly SelectedTest[],
  folder: string,
  stdout: NodeJS.WritableStream,
  signal: AbortSignal,
): Promise<void> {
  let written = 0;
  for (const { namespace, test } of tests) {
    const name = test.kind === "IntegrationTest" ? test.object?.status?.failureBundle?.configMap : undefined;
    if (name === undefined) continue;
    const { data = {} } = await client.get(ConfigMap, { namespace, name }, { signal });
    const path = join(folder, `${namespace}.${test.name}`);
    await mkdir(path, { recursive: true });
    // Keys of a ConfigMap contain no slash, and names of tests neither.
    for (const [file, text] of Object.entries(data)) await writeFile(join(path, file), text);
    stdout.write(`${path}: ${Object.keys(data).sort().join(", ")}\n`);
    written += 1;
  }
  if (written === 0) stdout.write("No failure bundles\n");
}

/** `keelson testplane list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list tests with their verdicts",
  flags: listFlagsOf(namespaceFlag),
  run: (context) =>
    listObjects(context, {
      types: [IntegrationTest, LoadTest],
      namespaceFlag,
      columns: ["KIND", "PHASE", "VERDICT", "ROUNDS", "TIME"],
      cells: () => Promise.resolve((object) => cellsOf(reportedTest(object as DeepReadonly<IntegrationTest | LoadTest>))),
      empty: (namespace) =>
        `No tests${namespace === undefined ? "" : ` in namespace ${namespace}`}; run one: keelson test run FILE`,
    }),
};

/** A test of the cluster. */
export interface SelectedTest {
  readonly namespace: string;
  readonly test: ReportedTest;
}

function cellsOf(test: ReportedTest): readonly string[] {
  const report: TestReport = reportTest(test);
  const { phase = "Pending", completionTime } = test.object?.status ?? {};
  const isDone = completionTime !== undefined;
  return [
    ...[test.kind, phase],
    ...(isDone ? [report.verdict, roundsText(report), `${report.seconds.toFixed(1)} s`] : ["", "", ""]),
  ];
}

/** Reads the selected tests, or those with these names. **Errors**: `UsageError` if a name is not found. */
export async function selectTests(
  client: Client,
  flags: Parameters<CommandDefinition["run"]>[0]["flags"],
  names: readonly string[],
  signal: AbortSignal,
): Promise<readonly SelectedTest[]> {
  const options = {
    namespace: allNamespacesFlag.read(flags) ? undefined : namespaceFlag.read(flags),
    labelSelector: selectorFlag.read(flags),
    signal,
  };
  const [integration, load] = await Promise.all([client.list(IntegrationTest, options), client.list(LoadTest, options)]);
  const found = [...integration.items, ...load.items].map(
    (object): SelectedTest => ({ namespace: object.metadata.namespace ?? "", test: reportedTest(object) }),
  );
  const missing = names.find((name) => !found.some(({ test }) => test.name === name));
  if (missing !== undefined) throw new UsageError(`test ${JSON.stringify(missing)} not found; list them: keelson test list`);
  return names.length === 0 ? found : found.filter(({ test }) => names.includes(test.name));
}

function reportedTest(object: DeepReadonly<IntegrationTest | LoadTest>): ReportedTest {
  const name = object.metadata.name ?? "";
  return isLoadTest(object) ? { kind: "LoadTest", name, object } : { kind: "IntegrationTest", name, object };
}

function isLoadTest(object: DeepReadonly<IntegrationTest | LoadTest>): object is DeepReadonly<LoadTest> {
  return object.kind === LoadTest.kind;
}
