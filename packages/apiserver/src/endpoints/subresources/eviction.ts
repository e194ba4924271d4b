import { type DeepReadonly, draft, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import { setField, valueAt } from "../../registry/object-fields.ts";
import { type StoredObject, storageKey } from "../../storage/store.ts";
import { type Call, keyOf, timestamp } from "../call.ts";
import { deleteNamed } from "../write/delete.ts";
import { notFound } from "../errors.ts";
import { decideEviction } from "./eviction-decision.ts";
import type { Outcome } from "../outcome.ts";
import { namedMetadata, success } from "./pod-subresources.ts";
import { deleteOptions, writeOptions } from "../write/write-options.ts";

const budgets = { group: "policy", plural: "poddisruptionbudgets" };

/** Answers `pods/eviction`: deletes the Pod if the PodDisruptionBudget that selects it allows that, else 429. */
export async function evictPod(call: Call): Promise<Outcome> {
  const { request, info, store } = call;
  namedMetadata(call, "Eviction");
  const body = isJsonObject(request.body) ? request.body : {};
  const options = deleteOptions({ ...request, body: body["deleteOptions"] ?? {} });
  const isDryRun = writeOptions(request, "CreateOptions").isDryRun || options.isDryRun;
  for (;;) {
    const stored = store.get(keyOf(call));
    if (stored === undefined) throw notFound(call.resource, info.name);
    const pod = stored.object;
    const selecting = store.list(storageKey(budgets, call.namespace, "")).items.filter(({ object }) => selects(object, pod));
    const [first] = selecting;
    const decision = decideEviction(
      pod,
      selecting.map(({ object }) => object),
      timestamp(call.clock),
    );
    if (decision.kind === "refused") throw decision.error;
    if (decision.kind === "evict-counted" && first !== undefined && !isDryRun) {
      // Two evictions at a time must not both have the last disruption that is allowed.
      if (!(await writeStatus(call, first, decision.status))) continue;
    }
    await deleteNamed(call, info.name, { ...options, isDryRun });
    return { kind: "status", status: success(201) };
  }
}

function selects(budget: DeepReadonly<KubernetesObject>, pod: DeepReadonly<KubernetesObject>): boolean {
  const selector = valueAt(budget, "spec", "selector");
  return isJsonObject(selector) && selectorFromObject(selector).matches(pod.metadata.labels ?? {});
}

async function writeStatus({ store, namespace }: Call, budget: StoredObject, status: object): Promise<boolean> {
  const next = draft(budget.object) as KubernetesObject;
  setField(next, "status", status);
  const { ok } = await store.write(storageKey(budgets, namespace, next.metadata.name ?? ""), budget.revision, next);
  return ok;
}
