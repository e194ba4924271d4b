import { type DeepReadonly, draft, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { BuiltInCondition, PodDisruptionBudgetObject, PodObject } from "@keelson/api-machinery/kinds";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import { type StoredObject, storageKey } from "../../storage/store.ts";
import type { AdmissionChain } from "../../admission/admission.ts";
import { admitUnstored, operationOptions } from "../admission-request.ts";
import { type Call, keyOf } from "../call.ts";
import { deleteNamed } from "../write/delete.ts";
import { notFound } from "../errors.ts";
import { decideEviction, type EvictionDecision } from "./eviction-decision.ts";
import type { Outcome } from "../outcome.ts";
import { namedMetadata, success } from "./pod-subresources.ts";
import { type DeleteOptions, deleteOptions } from "../write/delete-options.ts";
import { writeOptions } from "../write/write-options.ts";

const budgets = { group: "policy", plural: "poddisruptionbudgets" };

/** Serves `pods/eviction`: deletes the Pod if the PodDisruptionBudget that selects it allows it, or fails with 429. */
export async function evictPod(call: Call): Promise<Outcome> {
  const { request, info, store } = call;
  namedMetadata(call, "Eviction");
  const body = isJsonObject(request.body) ? request.body : {};
  const options = deleteOptions({ ...request, body: body["deleteOptions"] ?? {} });
  const isDryRun = writeOptions(request, "CreateOptions").isDryRun || options.isDryRun;
  await admitUnstored(call, {
    operation: "CREATE",
    kind: { group: "policy", version: "v1", kind: "Eviction" },
    name: info.name,
    object: { ...(draft(body) as unknown as KubernetesObject), apiVersion: "policy/v1", kind: "Eviction" },
    isDryRun,
    options: operationOptions(call, "CreateOptions"),
  });
  // A retry after a concurrent change of the Pod must not use another allowed disruption.
  let countedUid: string | undefined;
  for (;;) {
    const stored = store.get(keyOf(call));
    if (stored === undefined) throw notFound(call.resource, info.name);
    const pod = stored.object as DeepReadonly<PodObject>;
    const selecting = store.list(storageKey(budgets, call.namespace, "")).items.filter((item) => selects(budgetOf(item), pod));
    const [first] = selecting;
    const isCounted = countedUid !== undefined && countedUid === pod.metadata.uid;
    const decision: EvictionDecision = isCounted
      ? { kind: "evict" }
      : decideEviction(pod, selecting.map(budgetOf), call.timestamps.now());
    if (decision.kind === "rejected") throw decision.error;
    if (decision.kind === "evict-counted" && first !== undefined && !isDryRun) {
      // Concurrent evictions must not both use the last allowed disruption.
      if (!(await writeStatus(call, first, decision.status))) continue;
      countedUid = pod.metadata.uid;
    }
    const marked = isDryRun ? stored : await markDisrupted(call, stored, options);
    if (marked === undefined) continue;
    const { resourceVersion } = marked.object.metadata;
    // Marking the Pod has changed the version that the client named.
    const isNamed = options.resourceVersion === stored.object.metadata.resourceVersion;
    // An admitted eviction deletes the Pod without the admission of a delete.
    await deleteNamed({ ...call, admission: noAdmission }, info.name, {
      ...options,
      ...(isNamed && resourceVersion !== undefined && { resourceVersion }),
      isDryRun,
    });
    return { kind: "status", status: success(201) };
  }
}

/**
 * Sets the `DisruptionTarget` condition of a Pod that is about to be deleted, so that its controller knows why (KEP-3329). Returns the
 * written Pod, or undefined if it has changed. A Pod that does not meet the preconditions stays as it is; its deletion reports that.
 */
async function markDisrupted(
  call: Call,
  stored: StoredObject,
  { uid, resourceVersion }: Pick<DeleteOptions, "uid" | "resourceVersion">,
): Promise<StoredObject | undefined> {
  const { metadata } = stored.object;
  if ((uid ?? metadata.uid) !== metadata.uid) return stored;
  if ((resourceVersion ?? metadata.resourceVersion) !== metadata.resourceVersion) return stored;
  const pod = draft(stored.object) as PodObject;
  const before = pod.status?.conditions?.find(({ type }) => type === "DisruptionTarget");
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== "DisruptionTarget");
  const lastTransitionTime = before?.status === "True" ? before.lastTransitionTime : call.timestamps.now();
  // Go encodes the zero lastProbeTime as null, which the type does not have.
  const condition: unknown = {
    type: "DisruptionTarget",
    status: "True",
    lastProbeTime: null,
    lastTransitionTime,
    reason: "EvictionByEvictionAPI",
    message: "Eviction API: evicting",
  };
  pod.status = { ...pod.status, conditions: [...others, condition as BuiltInCondition] };
  const result = await call.store.write(keyOf(call), stored.revision, pod);
  return result.ok ? result.stored : undefined;
}

const noAdmission: AdmissionChain = {
  mutate: () => false,
  validate: () => undefined,
  review: () => undefined,
};

function budgetOf({ object }: StoredObject): DeepReadonly<PodDisruptionBudgetObject> {
  return object;
}

function selects({ spec }: DeepReadonly<PodDisruptionBudgetObject>, pod: DeepReadonly<PodObject>): boolean {
  return isJsonObject(spec?.selector) && selectorFromObject(spec.selector).matches(pod.metadata.labels ?? {});
}

async function writeStatus(
  { store, namespace }: Call,
  budget: StoredObject,
  status: DeepReadonly<PodDisruptionBudgetObject>["status"],
): Promise<boolean> {
  const next = draft({ ...budgetOf(budget), status });
  const { ok } = await store.write(storageKey(budgets, namespace, next.metadata.name ?? ""), budget.revision, next);
  return ok;
}
