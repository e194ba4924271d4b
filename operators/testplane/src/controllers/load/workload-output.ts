import { type DeepReadonly, ownerReference } from "@keelson/api-machinery";
import { ConfigMap, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { parseK6Summary } from "../../load-results/k6-summary.ts";
import { type GeneratorReport, lastReport } from "../../generator/generator-report.ts";
import { generatorContainer, generatorPodNames } from "./generator-pods.ts";
import { mergeReports } from "../../load-results/merge-reports.ts";
import { mergeK6 } from "../../load-results/merge-k6.ts";
import { readLogTail } from "../../programs/read-log-tail.ts";
import { hasPods } from "../../evaluation/workload-pods.ts";
import { numberAt, objectsAt, stringAt, valueAt } from "../../functions/read.ts";
import { type ActionContext, getIfPresent } from "../resource-actions.ts";
import { errorMessage } from "../running-tests.ts";
import { workloadTargets } from "./workload-state.ts";

/** Maximum containers whose output is stored. */
const maxContainers = 20;
/** Maximum size of the stored outputs, below the maximum size of a ConfigMap. */
const maxOutputBytes = 768 * 1_024;
/** Maximum size of the end of a generator's output, which has its result. */
export const maxReportBytes = 512 * 1_024;
const maxContainerBytes = 128 * 1_024;

type Output = NonNullable<LoadTestStatus["workloadOutput"]>[number];

/** The status fields that describe the collected output. */
export type CollectedOutput = Pick<LoadTestStatus, "outputCollected" | "outputConfigMap" | "workloadOutput" | "load">;

/**
 * Stores the end of the output of the workload's containers in a ConfigMap `<test>-output` that the test owns, so that it survives the
 * workload. Output that cannot be read is reported with its error. Idempotent.
 */
export async function collectOutput(spec: DeepReadonly<LoadTestSpec>, context: ActionContext): Promise<CollectedOutput> {
  const outputs: Output[] = [];
  const reports: GeneratorReport[] = [];
  const generators = new Set(generatorNames(spec, context));
  const data: Record<string, string> = {};
  const containers = (await workloadPods(spec, context)).flatMap((pod) =>
    objectsAt(pod, "status", "containerStatuses").map((container) => ({ pod, container })),
  );
  const limit = Math.min(maxContainerBytes, Math.floor(maxOutputBytes / Math.max(containers.length, 1)));
  for (const { pod, container } of containers.slice(0, maxContainers)) {
    const name = stringAt(container, "name");
    const key = `${pod.metadata.name ?? ""}.${name}.log`;
    const terminated = ["state", "terminated", "exitCode"];
    const output: Output = {
      pod: pod.metadata.name ?? "",
      container: name,
      key,
      restarts: numberAt(container, ["restartCount"], 0),
      ...(valueAt(container, ...terminated) === undefined ? {} : { exitCode: numberAt(container, terminated, 0) }),
    };
    try {
      const podKey = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
      const isGenerator = generators.has(podKey.name) && name === generatorContainer;
      const maxBytes = isGenerator ? maxReportBytes : limit;
      const whole = await readLogTail(context.client, podKey, { container: name, maxBytes, signal: context.signal });
      const report = isGenerator ? lastReport(whole) : undefined;
      if (report !== undefined) reports.push(report);
      const text = isGenerator ? Buffer.from(whole).subarray(-limit).toString("utf8") : whole;
      data[key] = text;
      outputs.push({ ...output, tail: [...text.trimEnd()].slice(-1_024).join("") });
    } catch (error) {
      outputs.push({ ...output, error: truncate(errorMessage(error)) });
    }
  }
  const isUnread = containers.length > maxContainers || outputs.some(({ error }) => error !== undefined);
  const measured = measuredLoad(spec, reports, { texts: Object.values(data), isUnread });
  if (Object.keys(data).length === 0) return { outputCollected: true, workloadOutput: outputs };
  const outputConfigMap = `${(context.owner.metadata.name ?? "").slice(0, 240)}-output`;
  const metadata = {
    name: outputConfigMap,
    namespace: context.owner.metadata.namespace ?? "",
    ownerReferences: [ownerReference(context.owner)],
  };
  try {
    await context.client.apply(ConfigMap, { metadata, data }, { fieldManager: context.fieldManager, signal: context.signal });
    return { outputCollected: true, outputConfigMap, workloadOutput: outputs, ...measured };
  } catch (error) {
    const message = truncate(`could not store the output: ${errorMessage(error)}`);
    return { outputCollected: true, workloadOutput: outputs.map((output) => ({ ...output, error: message })), ...measured };
  }
}

/** The load that the outputs of a workload report. An output that was not read may have had a summary of k6. */
function measuredLoad(
  { workload: { generator }, successCriteria }: DeepReadonly<LoadTestSpec>,
  reports: readonly GeneratorReport[],
  { texts, isUnread }: { readonly texts: readonly string[]; readonly isUnread: boolean },
): Pick<LoadTestStatus, "load"> {
  const percentiles = (successCriteria?.latency ?? []).map(({ percentile }) => percentile);
  const load =
    generator === undefined
      ? mergeK6(texts.map(parseK6Summary).filter((result) => result !== undefined))
      : mergeReports(reports, { workers: generator.workers ?? 1, percentiles });
  if (load === undefined) return {};
  return { load: generator === undefined && isUnread ? { ...load, state: "Partial" } : load };
}

/** Names of the Pods of the built-in generator. */
export const generatorNames = (
  { workload: { generator } }: DeepReadonly<LoadTestSpec>,
  { owner }: ActionContext,
): readonly string[] => (generator === undefined ? [] : generatorPodNames(generator, owner.metadata.name ?? ""));

/** The Pods of a workload: its own Pods, and those selected by its Jobs and other workload objects. */
export async function workloadPods(
  spec: DeepReadonly<LoadTestSpec>,
  { client, owner, signal, mapKind }: ActionContext,
): Promise<readonly DeepReadonly<PodObject>[]> {
  const { namespace = "" } = owner.metadata;
  const pods = new Map<string, DeepReadonly<PodObject>>();
  for (const target of workloadTargets(spec, { namespace, name: owner.metadata.name ?? "" })) {
    const type = mapKind(target.apiVersion, target.kind);
    const isPod = target.kind === "Pod";
    if (type === undefined || target.name === undefined || !hasPods(target)) continue;
    const object = await getIfPresent(client, type, { namespace, name: target.name }, signal);
    if (object === undefined) continue;
    const labelSelector = selectorFromObject(valueAt({ ...object }, "spec", "selector") as LabelSelector | undefined);
    const found = isPod
      ? [await client.get(Pod, { namespace, name: target.name }, { signal })]
      : (await client.list(Pod, { namespace, labelSelector: labelSelector.toString(), signal })).items;
    for (const pod of found) pods.set(pod.metadata.name, pod);
  }
  return [...pods.values()];
}
