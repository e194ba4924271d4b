import { type DeepReadonly, type KubernetesObject, ownerReference, type ResourceType } from "@keelson/api-machinery";
import { ConfigMap, Event, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { IntegrationTestStatus, StepStatus } from "../api/integration-test.ts";
import { failureOf, truncate } from "../evaluation/evaluate.ts";
import { isTarget, type Target } from "../evaluation/target.ts";
import { relatedTargets } from "../evaluation/workload-pods.ts";
import { valueAt } from "../functions/read.ts";
import { type ActionContext, getIfPresent } from "../controllers/resource-actions.ts";
import { errorMessage } from "../controllers/running-tests.ts";
import { readLogTail } from "../programs/read-log-tail.ts";
import { bundleFiles, type ContainerLog, eventTimeOf, type FailureEvidence } from "./bundle-files.ts";

/** Status field that names the bundle. */
export type FailureBundle = NonNullable<IntegrationTestStatus["failureBundle"]>;

/** Limits of a bundle. */
const maxObjects = 50;
const maxContainers = 40;
const maxEvents = 200;
const maxLogBytes = 64 * 1024;

/** Whether the first failure of a test has yet to be recorded. */
export function needsFailureBundle({
  failureBundle,
  steps = [],
  finalExpectations,
}: DeepReadonly<IntegrationTestStatus>): boolean {
  if (failureBundle !== undefined) return false;
  const hasFailed = steps.some(({ phase = "Main", state }) => phase === "Main" && state === "Failed");
  return hasFailed || finalExpectations?.state === "Failed";
}

/** Inputs of {@link collectFailure}. */
export interface FailureScope {
  readonly status: DeepReadonly<IntegrationTestStatus>;
  /** Targets of the steps and final expectations. */
  readonly targets: readonly Target[];
  readonly context: ActionContext;
  readonly now: string;
}

/**
 * Stores the objects, events and logs of a failed round in a ConfigMap `<test>-failure` that the test owns, before the round's catch and
 * cleanup steps change them. Only the namespaces of the test and of its round are read. What cannot be read is left out, and a bundle that
 * cannot be stored is reported with its error: neither affects the verdict. Idempotent.
 */
export async function collectFailure({ status, targets, context, now }: FailureScope): Promise<FailureBundle> {
  const { client, owner, signal, fieldManager } = context;
  const namespace = status.namespace ?? owner.metadata.namespace ?? "";
  const round = status.currentRound ?? 1;
  const bundle = { round, collectedAt: now };
  const configMap = `${(owner.metadata.name ?? "").slice(0, 240)}-failure`;
  const metadata = {
    name: configMap,
    namespace: owner.metadata.namespace ?? "",
    ownerReferences: [ownerReference(owner)],
  };
  try {
    const evidence = await gather(context, namespace, { status, targets });
    const data = { ...bundleFiles(evidence) };
    await client.apply(ConfigMap, { metadata, data }, { fieldManager, signal });
    return { ...bundle, configMap };
  } catch (error) {
    signal.throwIfAborted();
    return { ...bundle, error: truncate(errorMessage(error), 256) };
  }
}

async function gather(
  context: ActionContext,
  namespace: string,
  { status, targets }: Pick<FailureScope, "status" | "targets">,
): Promise<FailureEvidence> {
  const objects = new Map<string, DeepReadonly<KubernetesObject>>();
  for (const target of targets) {
    if (objects.size >= maxObjects) break;
    if (target.cluster !== undefined) continue;
    if (![namespace, context.owner.metadata.namespace].includes(target.namespace) || isAllPods(target)) continue;
    for (const object of await unlessFailed(objectsOf(context, target), [])) {
      objects.set(`${object.kind ?? ""}/${object.metadata.name ?? ""}`, object);
      for (const pod of await unlessFailed(podsOf(context, target, object), [])) {
        objects.set(`Pod/${pod.metadata.name}`, { ...pod, apiVersion: "v1", kind: "Pod" });
      }
    }
  }
  const found = [...objects.values()].slice(0, maxObjects);
  const events = await unlessFailed(eventsOf(context, namespace, status.roundStartedAt), []);
  const pods = found.filter(({ kind }) => kind === "Pod") as unknown as readonly DeepReadonly<PodObject>[];
  return { summary: summaryOf(status), objects: found, events, logs: await logsOf(context, pods) };
}

/** A target that stands for the Pods of a workload. */
const isAllPods = ({ kind, name, labels, annotations }: Target): boolean =>
  kind === "Pod" && name === undefined && labels === undefined && annotations === undefined;

async function objectsOf(
  { client, mapKind, signal }: ActionContext,
  target: Target,
): Promise<readonly DeepReadonly<KubernetesObject>[]> {
  const { apiVersion, kind, namespace, name } = target;
  const type = mapKind(apiVersion, kind);
  if (type === undefined || type.scope === "Cluster") return [];
  const own = (object: DeepReadonly<KubernetesObject>) => ({ ...object, apiVersion, kind });
  if (name !== undefined) {
    const object = await getIfPresent(client, type, { namespace, name }, signal);
    return object === undefined ? [] : [own(object)];
  }
  const { items } = await client.list(type as ResourceType, { namespace, limit: 500, signal });
  return items.filter(({ metadata }) => isTarget(target, metadata)).map(own);
}

async function podsOf(
  { client, signal }: ActionContext,
  target: Target,
  workload: DeepReadonly<KubernetesObject>,
): Promise<readonly DeepReadonly<PodObject>[]> {
  if (relatedTargets(target).length === 0) return [];
  const selector = selectorFromObject(valueAt({ ...workload }, "spec", "selector") as LabelSelector | undefined);
  const labelSelector = selector.toString();
  // An empty selector would select all Pods.
  if (labelSelector === "") return [];
  return (await client.list(Pod, { namespace: target.namespace, labelSelector, limit: maxObjects, signal })).items;
}

async function eventsOf(
  { client, signal }: ActionContext,
  namespace: string,
  since = "",
): Promise<readonly DeepReadonly<KubernetesObject>[]> {
  const { items } = await client.list(Event, { namespace, limit: 5_000, signal });
  const timed = items.map((event) => ({ event, at: Date.parse(eventTimeOf(event)) }));
  // Older API types have times in whole seconds.
  const start = Math.floor(Date.parse(since || "1970-01-01T00:00:00Z") / 1_000) * 1_000;
  const recent = timed.filter(({ at }) => at >= start).sort((a, b) => a.at - b.at);
  return recent.slice(-maxEvents).map(({ event }) => event);
}

async function logsOf(
  { client, signal }: ActionContext,
  pods: readonly DeepReadonly<PodObject>[],
): Promise<readonly ContainerLog[]> {
  const containers = pods.flatMap(({ metadata, spec }) =>
    [...(spec.initContainers ?? []), ...spec.containers].map(({ name }) => ({
      key: { namespace: metadata.namespace, name: metadata.name ?? "" },
      container: name,
    })),
  );
  return Promise.all(
    containers.slice(0, maxContainers).map(async ({ key, container }) => {
      const read = readLogTail(client, key, { container, maxBytes: maxLogBytes, signal });
      const text = await read.catch((error: unknown) => `[no log: ${errorMessage(error)}]\n`);
      return { pod: key.name, container, text };
    }),
  );
}

function summaryOf({
  steps = [],
  currentRound = 1,
  finalExpectations,
  message,
}: DeepReadonly<IntegrationTestStatus>): readonly string[] {
  const failed = steps.filter(({ state }) => state === "Failed").flatMap(stepLines);
  const finals = finalExpectations?.state === "Failed" ? [`finalExpectations: ${message ?? ""}`] : [];
  return [`round ${currentRound}`, ...failed, ...finals];
}

function stepLines({
  name,
  reason = "",
  message = "",
  expectationResults = [],
  readyConditionStatus,
}: DeepReadonly<StepStatus>): readonly string[] {
  const results = [...(readyConditionStatus?.results ?? []), ...expectationResults].filter(({ passed }) => !passed);
  const diffs = results.flatMap(({ diff }) => (diff === undefined ? [] : diff.split("\n")));
  return [
    `step ${name}: ${reason}: ${message}`,
    ...results.map((result) => `  ${failureOf([result])}`),
    ...diffs.map((line) => `    ${line}`),
  ];
}

async function unlessFailed<T>(found: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await found;
  } catch {
    // Evidence that cannot be read is left out.
    return otherwise;
  }
}
