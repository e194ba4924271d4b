import type { JsonObject, KubernetesObject } from "@keelson/api-machinery";
import { compareQuantities, formatQuantity, quantityToMillis, type QuantityLike } from "@keelson/api-machinery/quantity";
import { forbidden } from "../endpoints/errors.ts";
import { ensureMap, listAt, mapAt, objectsAt, textAt, valueAt } from "../registry/object-fields.ts";
import type { AdmissionStep, AdmissionTarget } from "./admission.ts";
import type { NamespacedObjects } from "./namespaced-objects.ts";
import { amountsOf, podResources, type ResourceAmounts } from "../registry/kinds/pod/pod-resources.ts";

/** Group and plural of LimitRanges. */
export const limitRangeKind = { group: "", plural: "limitranges" };

const annotation = "kubernetes.io/limit-ranger";

/** What is requested and limited. */
interface Resources {
  readonly requests: ResourceAmounts;
  readonly limits: ResourceAmounts;
}

/**
 * LimitRanges, as the admission plugin LimitRanger of kube-apiserver enforces them: new Pods get default requests and limits, and new Pods
 * and claims have to stay within bounds. Of the updates of Pods, only resizes are checked.
 */
export function limitRanger(limitRanges: Pick<NamespacedObjects, "in">): AdmissionStep {
  const limitsOf = (namespace: string): readonly unknown[] =>
    limitRanges.in(namespace).flatMap(({ object }) => listAt(object, "spec", "limits"));
  return {
    name: "LimitRanger",
    appliesTo: (target) => isNewPod(target) || isPodResize(target) || isClaim(target),
    mutate(request) {
      const { object, namespace } = request;
      if (object === undefined || !isNewPod(request)) return false;
      const limits = limitsOf(namespace).filter((limit) => textAt(limit, "type") === "Container");
      return limits.map((limit) => setDefaults(object, limit)).some((isChanged) => isChanged);
    },
    review(request) {
      const { object, resource, name, namespace } = request;
      if (object === undefined) return;
      const faultsOf = isClaim(request) ? claimFaults : podFaults;
      const faults = limitsOf(namespace).flatMap((limit) => faultsOf(limit, object));
      if (faults.length === 0) return;
      const why = faults.length === 1 ? (faults[0] ?? "") : `[${faults.join(", ")}]`;
      throw forbidden(resource, object.metadata.name ?? name, why);
    },
  };
}

function isNewPod({ resource, operation, subresource }: AdmissionTarget): boolean {
  return resource.group === "" && resource.plural === "pods" && operation === "CREATE" && subresource === "";
}

function isPodResize({ resource, subresource }: AdmissionTarget): boolean {
  return resource.group === "" && resource.plural === "pods" && subresource === "resize";
}

function isClaim({ resource, operation, subresource }: AdmissionTarget): boolean {
  const isWritten = operation === "CREATE" || operation === "UPDATE";
  return resource.group === "" && resource.plural === "persistentvolumeclaims" && isWritten && subresource === "";
}

/** Fills in missing requests and limits of all containers. Returns whether anything was missing. */
function setDefaults(pod: KubernetesObject, limit: unknown): boolean {
  const notes: string[] = [];
  const fill = (container: JsonObject, kind: string): void => {
    for (const [field, defaults, noun] of [
      ["requests", "defaultRequest", "request"],
      ["limits", "default", "limit"],
    ] as const) {
      const missing = Object.entries(mapAt(limit, defaults)).filter(
        ([name]) => !Object.hasOwn(mapAt(container, "resources", field), name),
      );
      if (missing.length === 0) continue;
      const amounts = ensureMap(ensureMap(container, "resources"), field);
      for (const [name, amount] of missing) amounts[name] = amount as string;
      const names = missing.map(([name]) => name).sort();
      notes.push(`${names.join(", ")} ${noun} for ${kind} ${textAt(container, "name")}`);
    }
  };
  for (const container of objectsAt(pod, "spec", "containers")) fill(container, "container");
  for (const container of objectsAt(pod, "spec", "initContainers")) fill(container, "init container");
  if (notes.length === 0) return false;
  const text = `LimitRanger plugin set: ${notes.join("; ")}`;
  pod.metadata.annotations = { ...pod.metadata.annotations, [annotation]: text };
  return true;
}

function podFaults(limit: unknown, pod: KubernetesObject): readonly string[] {
  const spec = valueAt(pod, "spec");
  const type = textAt(limit, "type");
  if (type === "Pod") {
    return boundFaults(limit, { requests: podResources(spec, "requests"), limits: podResources(spec, "limits") });
  }
  if (type !== "Container") return [];
  return [...objectsAt(spec, "containers"), ...objectsAt(spec, "initContainers")].flatMap((container) =>
    boundFaults(limit, {
      requests: amountsOf(mapAt(container, "resources", "requests")),
      limits: amountsOf(mapAt(container, "resources", "limits")),
    }),
  );
}

/** Bounds of one limit in the order of kube-apiserver's messages: minima, maxima, ratios. */
function boundFaults(limit: unknown, { requests, limits }: Resources): readonly string[] {
  const type = textAt(limit, "type");
  const faults: string[] = [];
  const usage = (bound: string, name: string, amount: QuantityLike): string =>
    `${bound} ${name} usage per ${type} is ${formatQuantity(amount)}`;
  for (const [name, min] of sorted(limit, "min")) {
    const [request, max] = [requests[name], limits[name]];
    const text = usage("minimum", name, min);
    if (request === undefined) faults.push(`${text}.  No request is specified`);
    else if (compareQuantities(request, min) < 0) faults.push(`${text}, but request is ${formatQuantity(request)}`);
    else if (max !== undefined && compareQuantities(max, min) < 0) faults.push(`${text}, but limit is ${formatQuantity(max)}`);
  }
  for (const [name, max] of sorted(limit, "max")) {
    const [request, own] = [requests[name], limits[name]];
    const text = usage("maximum", name, max);
    if (own === undefined) faults.push(`${text}.  No limit is specified`);
    else if (compareQuantities(own, max) > 0) faults.push(`${text}, but limit is ${formatQuantity(own)}`);
    else if (request !== undefined && compareQuantities(request, max) > 0) {
      faults.push(`${text}, but request is ${formatQuantity(request)}`);
    }
  }
  for (const [name, ratio] of sorted(limit, "maxLimitRequestRatio")) {
    const fault = ratioFault(requests[name], limits[name], ratio);
    const text = `${name} max limit to request ratio per ${type} is ${formatQuantity(ratio)}`;
    if (fault !== undefined) faults.push(`${text}, but ${fault}`);
  }
  return faults;
}

function ratioFault(request: QuantityLike | undefined, limit: QuantityLike | undefined, max: QuantityLike): string | undefined {
  if (request === undefined || compareQuantities(request, 0) === 0) return "no request is specified or request is 0";
  if (limit === undefined || compareQuantities(limit, 0) === 0) return "no limit is specified or limit is 0";
  const ratio = quantityToMillis(limit) / quantityToMillis(request);
  return ratio > quantityToMillis(max) / 1_000 ? `provided ratio is ${ratio.toFixed(6)}` : undefined;
}

/** Claims have requests only. */
function claimFaults(limit: unknown, claim: KubernetesObject): readonly string[] {
  if (textAt(limit, "type") !== "PersistentVolumeClaim") return [];
  const requests = amountsOf(mapAt(claim, "spec", "resources", "requests"));
  const faults: string[] = [];
  for (const [bound, field, sign] of [
    ["minimum", "min", -1],
    ["maximum", "max", 1],
  ] as const) {
    for (const [name, amount] of sorted(limit, field)) {
      const request = requests[name];
      const text = `${bound} ${name} usage per PersistentVolumeClaim is ${formatQuantity(amount)}`;
      if (request === undefined) faults.push(`${text}.  No request is specified`);
      else if (Math.sign(compareQuantities(request, amount)) === sign) {
        faults.push(`${text}, but request is ${formatQuantity(request)}`);
      }
    }
  }
  return faults;
}

function sorted(limit: unknown, field: string): readonly (readonly [string, QuantityLike])[] {
  return Object.entries(amountsOf(mapAt(limit, field))).sort(([a], [b]) => (a < b ? -1 : 1));
}
