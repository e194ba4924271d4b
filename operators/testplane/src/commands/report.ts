import type { DeepReadonly } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type CommandDefinition, renderTable } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import { IntegrationTest } from "../api/integration-test.ts";
import { LoadTest } from "../api/load-test.ts";
import { markdownReport, roundsText } from "../reports/markdown.ts";
import { type ReportedTest, reportTest, type TestReport } from "../reports/report.ts";
import { reportFlags, writeReports } from "../reports/write-reports.ts";

const selectionFlags = [
  { name: "namespace", short: "n", value: "NAME", description: "namespace of the tests", default: "default" },
  { name: "all-namespaces", short: "A", description: "tests of all namespaces" },
  { name: "selector", short: "l", value: "LABELS", description: "only tests with these labels, such as app=web" },
] as const;

/** `keelson testplane report [NAMES...]`. */
export const reportCommand: CommandDefinition = {
  name: "report",
  description: "report tests of the cluster: as Markdown, or to the files of the flags",
  args: ["[NAMES...]"],
  flags: [...selectionFlags, ...reportFlags],
  async run({ args, flags, stdout, signal, client: connect }) {
    const client = await connect();
    try {
      const tests = await selectTests(client, flags, args, signal);
      const reports = tests.map(({ test }) => reportTest(test));
      if ((await writeReports(flags, reports)) === 0) stdout.write(markdownReport(reports));
      return 0;
    } finally {
      await client.close();
    }
  },
};

/** `keelson testplane list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list tests with their verdicts",
  flags: [...selectionFlags],
  async run({ flags, stdout, signal, client: connect }) {
    const client = await connect();
    try {
      const tests = await selectTests(client, flags, [], signal);
      stdout.write(
        tests.length === 0 ? "No tests; run one: keelson test run FILE\n" : renderTable([head, ...tests.map(rowOf)]),
      );
      return 0;
    } finally {
      await client.close();
    }
  },
};

const head = ["NAMESPACE", "NAME", "KIND", "PHASE", "VERDICT", "ROUNDS", "TIME"];

interface SelectedTest {
  readonly namespace: string;
  readonly test: ReportedTest;
}

function rowOf({ namespace, test }: SelectedTest): readonly string[] {
  const report: TestReport = reportTest(test);
  const { phase = "Pending", completionTime } = test.object?.status ?? {};
  const isDone = completionTime !== undefined;
  return [
    ...[namespace, test.name, test.kind, phase],
    ...(isDone ? [report.verdict, roundsText(report), `${report.seconds.toFixed(1)} s`] : ["", "", ""]),
  ];
}

async function selectTests(
  client: Client,
  flags: Parameters<CommandDefinition["run"]>[0]["flags"],
  names: readonly string[],
  signal: AbortSignal,
): Promise<readonly SelectedTest[]> {
  const { selector } = flags;
  const options = {
    namespace: flags["all-namespaces"] === true ? undefined : String(flags["namespace"] ?? "default"),
    ...(typeof selector === "string" ? { labelSelector: selector } : {}),
    signal,
  };
  const [integration, load] = await Promise.all([client.list(IntegrationTest, options), client.list(LoadTest, options)]);
  const found: readonly SelectedTest[] = [
    ...integration.items.map((object: DeepReadonly<IntegrationTest>) =>
      selected(object, { kind: "IntegrationTest", name: object.metadata.name ?? "", object }),
    ),
    ...load.items.map((object: DeepReadonly<LoadTest>) =>
      selected(object, { kind: "LoadTest", name: object.metadata.name ?? "", object }),
    ),
  ];
  const missing = names.find((name) => !found.some(({ test }) => test.name === name));
  if (missing !== undefined) throw new UsageError(`test ${JSON.stringify(missing)} not found; list them: keelson test list`);
  return names.length === 0 ? found : found.filter(({ test }) => names.includes(test.name));
}

const selected = ({ metadata }: DeepReadonly<IntegrationTest | LoadTest>, test: ReportedTest): SelectedTest => ({
  namespace: metadata.namespace ?? "",
  test,
});
