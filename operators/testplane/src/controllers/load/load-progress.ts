import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { objectsAt, stringAt } from "../../functions/read.ts";
import { readLogTail } from "../../programs/read-log-tail.ts";
import { type GeneratorReport, lastReport } from "../../generator/generator-report.ts";
import { mergeReports } from "../../load-results/merge-reports.ts";
import { describeLoad } from "../../verdicts/load-criteria.ts";
import { generatorContainer } from "./generator-pods.ts";
import type { LoadGenerator } from "../../api/load-generator.ts";
import type { LoadResult } from "../../api/load-result.ts";
import type { ActionContext } from "../resource-actions.ts";
import { iso } from "../test-status.ts";
import { generatorNames, maxReportBytes, workloadPods } from "./workload-output.ts";

/** Maximum Pods whose output is read while the load runs. */
const maxPods = 20;
/** Maximum size of a line of other containers. The lines of a generator have its timeline and histogram. */
const maxLineBytes = 16_384;

/** Reads the end of a running workload's output. What cannot be read is left out: progress does not affect the verdict. */
export async function readProgress(
  spec: DeepReadonly<LoadTestSpec>,
  context: ActionContext,
  now: number,
): Promise<Pick<LoadTestStatus, "progress" | "load">> {
  const { client, signal } = context;
  const lines: string[] = [];
  const reports: GeneratorReport[] = [];
  const generators = new Set(generatorNames(spec, context));
  for (const pod of (await workloadPods(spec, context).catch(() => [])).slice(0, maxPods)) {
    const [container] = objectsAt(pod, "status", "containerStatuses");
    if (container === undefined) continue;
    const key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
    const name = stringAt(container, "name");
    const isGenerator = generators.has(key.name) && name === generatorContainer;
    const options = { container: name, maxBytes: isGenerator ? maxReportBytes : maxLineBytes, tailLines: 1, signal };
    const text = await readLogTail(client, key, options).catch(() => "");
    const report = isGenerator ? lastReport(text) : undefined;
    if (report !== undefined) reports.push(report);
    // A line of a generator is a report or unreadable; its histogram is not progress.
    else if (!isGenerator && text.trim() !== "") lines.push(text.trim());
  }
  const load = spec.workload.generator === undefined ? undefined : runningLoad(spec.workload.generator, reports, now);
  const line = load === undefined ? lines.at(-1) : `${Math.floor(load.seconds)} s: ${describeLoad(load)}`;
  const progress = { observedAt: iso(now), ...(line === undefined ? {} : { line: truncate(line, 256) }) };
  return { progress, ...(load === undefined ? {} : { load }) };
}

/** The figures of a running generator. They decide nothing: only those of the stored output do. */
function runningLoad(
  { workers = 1 }: DeepReadonly<LoadGenerator>,
  reports: readonly GeneratorReport[],
  now: number,
): LoadResult | undefined {
  const load = mergeReports(reports, { workers, observedAt: iso(now) });
  return load === undefined ? undefined : { ...load, state: "Running" };
}
