import { type DeepReadonly, type KubernetesObject, parseApiVersion } from "@keelson/api-machinery";
import { compareQuantities, formatQuantity } from "@keelson/api-machinery/quantity";
import { conflict, forbidden } from "../../endpoints/errors.ts";
import { mapAt, objectsAt, setField, textAt, valueAt } from "../../registry/object-fields.ts";
import { type Store, type StoredObject, storageKey } from "../../storage/store.ts";
import type { AdmissionRequest, AdmissionStep } from "../admission.ts";
import type { NamespacedObjects } from "../namespaced-objects.ts";
import { addAmounts, amountsOf, type ResourceAmounts } from "../../registry/kinds/pod/pod-resources.ts";
import { matchesScopes } from "./scopes.ts";
import { measure } from "./measure.ts";
import type { PendingUsages } from "./pending-usage.ts";
import { type QuotaKind, usageAdded } from "./usage.ts";

/** Group and plural of ResourceQuotas. */
export const quotaKind: QuotaKind = { group: "", plural: "resourcequotas" };

/** Attempts to reserve usage while other requests write the same quotas. */
const maxAttempts = 20;

/** Kinds whose updates can change their usage. */
const updatable: ReadonlySet<string> = new Set(["persistentvolumeclaims", "services"]);

/** What {@link resourceQuota} takes. */
export interface QuotaContext {
  readonly store: Pick<Store, "get" | "list" | "write">;
  /** The current ResourceQuotas. */
  readonly quotas: Pick<NamespacedObjects, "in">;
  /** Receives each reservation until its object is stored. */
  readonly pending: PendingUsages;
}

/** What a request would add to a quota. */
interface Charge {
  readonly stored: StoredObject;
  readonly used: ResourceAmounts;
}

/**
 * ResourceQuotas, as the admission plugin of kube-apiserver enforces them: usage is reserved in the status of each quota before the object
 * is stored, so that concurrent requests cannot exceed it together. Usage that a failed or deleted object leaves behind is recounted
 * (see `quota-recount.ts`).
 */
export function resourceQuota(context: QuotaContext): AdmissionStep {
  return {
    name: "ResourceQuota",
    appliesTo({ operation, resource, subresource }) {
      if (resource.scope !== "Namespaced" || operation === "DELETE") return false;
      const isCore = resource.group === "";
      if (subresource !== "") return isCore && resource.plural === "pods" && subresource === "resize";
      return operation !== "UPDATE" || (isCore && updatable.has(resource.plural));
    },
    review(request) {
      const { object, namespace } = request;
      if (object !== undefined && context.quotas.in(namespace).length > 0) return charge(context, request, object);
    },
  };
}

/** Reserves what a write adds. Rejects if a quota would be exceeded. */
async function charge(context: QuotaContext, request: AdmissionRequest, object: KubernetesObject): Promise<void> {
  const { resource, namespace, oldObject, isDryRun } = request;
  const added = usageAdded(resource, object, oldObject);
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const isCharged = await context.pending.inTurn(namespace, async () => {
      const charges = chargesFor(context, request, object, added);
      if (charges.length === 0 || isDryRun) return true;
      if (!(await reserve(context.store, charges))) return false;
      notePending(context.pending, request, object);
      return true;
    });
    if (isCharged) return;
  }
  throw conflict(resource, object.metadata.name ?? "", "the usage of its resource quotas changes too fast; try again");
}

/** Keeps the reservation until the object is stored or the request has failed. */
function notePending(pending: PendingUsages, request: AdmissionRequest, object: KubernetesObject): void {
  const { resource, namespace, name, oldObject } = request;
  const kind = { group: resource.group, plural: resource.plural };
  const end = pending.add(namespace, {
    kind,
    key: storageKey({ ...kind, group: parseApiVersion(resource.storageApiVersion).group }, namespace, name),
    expected: Number(oldObject?.metadata.resourceVersion ?? 0),
    object,
    oldObject,
  });
  request.whenEnded(end);
}

/** The quotas to charge. Throws if one of them would be exceeded. */
function chargesFor(
  context: QuotaContext,
  request: AdmissionRequest,
  object: KubernetesObject,
  added: ResourceAmounts,
): readonly Charge[] {
  const { resource, name, namespace, operation } = request;
  const charges: Charge[] = [];
  const reject = (why: string): never => {
    throw forbidden(resource, object.metadata.name ?? name, why);
  };
  const quotas = context.quotas.in(namespace).filter((stored) => matchesScopes(stored.object, resource, object));
  if (operation === "CREATE" && resource.group === "" && resource.plural === "pods") {
    for (const { object: quota } of quotas) {
      const missing = missingResources(quota, object);
      if (missing !== "") reject(`failed quota: ${quota.metadata.name ?? ""}: must specify ${missing}`);
    }
  }
  for (const stored of quotas) {
    const hard = amountsOf(mapAt(stored.object, "spec", "hard"));
    const names = Object.keys(hard).filter((each) => added[each] !== undefined && compareQuantities(added[each], 0) !== 0);
    if (names.length === 0) continue;
    const used = usedOf(context, stored, names);
    const charge = Object.fromEntries(names.map((each) => [each, added[each] ?? 0]));
    const next = addAmounts(used, charge);
    const exceeded = names
      .filter((each) => compareQuantities(charge[each] ?? 0, 0) > 0 && compareQuantities(next[each] ?? 0, hard[each] ?? 0) > 0)
      .sort();
    if (exceeded.length > 0) {
      const texts = [charge, used, hard].map((amounts) => describe(amounts, exceeded));
      const quotaName = stored.object.metadata.name ?? "";
      reject(`exceeded quota: ${quotaName}, requested: ${texts[0]}, used: ${texts[1]}, limited: ${texts[2]}`);
    }
    charges.push({ stored, used: next });
  }
  return charges;
}

/** The used amounts in a quota's status; those that have not been counted yet are counted. */
function usedOf({ store, pending }: QuotaContext, { object: quota }: StoredObject, names: readonly string[]): ResourceAmounts {
  const used = amountsOf(mapAt(quota, "status", "used"));
  const uncounted = names.filter((name) => used[name] === undefined);
  if (uncounted.length === 0) return used;
  return { ...measure(store, quota, pending.unstored(quota.metadata.namespace ?? "", store)), ...used };
}

/** Writes the usage. False if another request was faster. */
async function reserve(store: Pick<Store, "write">, charges: readonly Charge[]): Promise<boolean> {
  for (const { stored, used } of charges) {
    const next = withUsage(stored.object, used);
    const result = await store.write(stored.key, stored.revision, next);
    if (!result.ok) return false;
  }
  return true;
}

/** A copy of a quota with this usage. */
export function withUsage(quota: DeepReadonly<KubernetesObject>, used: ResourceAmounts): KubernetesObject {
  const next = structuredClone(quota) as KubernetesObject;
  const texts = Object.entries(used).map(([name, amount]) => [name, formatQuantity(amount)] as const);
  setField(next, "status", {
    hard: structuredClone(mapAt(quota, "spec", "hard")),
    used: Object.fromEntries(texts.sort(([a], [b]) => (a < b ? -1 : 1))),
  });
  return next;
}

function describe(amounts: ResourceAmounts, names: readonly string[]): string {
  return names.map((name) => `${name}=${formatQuantity(amounts[name] ?? 0)}`).join(",");
}

const computeResource = /^(?:(requests|limits)\.)?(cpu|memory)$/;

/** Compute resources that a quota limits and that containers do not specify: `limits.cpu for: a,b; requests.cpu for: a`. */
function missingResources(quota: DeepReadonly<KubernetesObject>, pod: KubernetesObject): string {
  const spec = valueAt(pod, "spec");
  const containers = [...objectsAt(spec, "initContainers"), ...objectsAt(spec, "containers")];
  return Object.keys(mapAt(quota, "spec", "hard"))
    .sort()
    .flatMap((name) => {
      const match = computeResource.exec(name);
      if (match === null) return [];
      const [, field = "requests", resource = ""] = match;
      if (Object.hasOwn(mapAt(spec, "resources", field), resource)) return [];
      const without = containers.filter((container) => !Object.hasOwn(mapAt(container, "resources", field), resource));
      return without.length === 0 ? [] : [`${name} for: ${without.map((container) => textAt(container, "name")).join(",")}`];
    })
    .join("; ");
}
