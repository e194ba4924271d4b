import type { Steps } from "@keelson/api-machinery/server";
import { compareQuantities, formatQuantity, parseQuantity } from "@keelson/api-machinery/quantity";
import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  notFoundCause,
  notSupportedCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../../object-fields.ts";
import { amountsOf as amountsByName, containerRequests } from "../pod-resources.ts";
import { type Causes, eachItem } from "../../../causes.ts";

/**
 * Validates ResourceRequirements, whose claims must be among `podClaims`. A container can have tens of thousands of resources: each name
 * and amount is read once.
 */
export function* resourceCauses(
  resources: unknown,
  path: string,
  podClaims: PodClaims = podClaimsOf([]),
  nameCausesOf: typeof nameCauses = nameCauses,
): Causes {
  const limits = yield* amountsOf(mapAt(resources, "limits"));
  const requests = yield* amountsOf(mapAt(resources, "requests"));
  yield* amountCauses(limits, `${path}.limits`, nameCausesOf);
  yield* amountCauses(requests, `${path}.requests`, nameCausesOf);
  yield* eachItem(requests.values(), (request) => requestCauses(request, limits.get(request.name), path));
  const has = (name: string): boolean => limits.has(name) || requests.has(name);
  const hasHugePages = [limits, requests].some((amounts) => [...amounts.keys()].some(isHugePages));
  if (hasHugePages && !has("cpu") && !has("memory")) yield forbiddenCause(path, "HugePages require cpu or memory");
  yield* claimCauses(listAt(resources, "claims"), `${path}.claims`, podClaims);
}

/** The claims of a Pod that its containers may name. */
export interface PodClaims {
  readonly names: ReadonlySet<string>;
  /** The names in a message. */
  readonly shown: string;
}

/** Creates the claims from their names. */
export function podClaimsOf(names: readonly string[]): PodClaims {
  return { names: new Set(names), shown: names.length === 0 ? " which is empty" : `: ${names.toSorted().join(", ")}` };
}

/** Validates the claims of a container. A claim without a request covers all its requests, so that no other entry may name it. */
function* claimCauses(claims: readonly unknown[], path: string, podClaims: PodClaims): Causes {
  const names = new Set<string>();
  const claimed = new Set<string>();
  yield* eachItem(claims, (claim, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(claim, "name");
    if (name === "") return [requiredCause(at)];
    const request = textAt(claim, "request");
    const key = request === "" ? name : `${name}/${request}`;
    const isWhole = names.has(name);
    const causes = isWhole || request === "" ? [] : check.dnsLabel(`${at}.request`, request);
    if (isWhole || names.has(key)) causes.push(duplicateCause(at, isWhole ? name : key));
    else if (request === "" && claimed.has(name)) causes.push(duplicateCause(at, name));
    names.add(key);
    claimed.add(name);
    if (!podClaims.names.has(name)) {
      causes.push(notFoundCause(at, name, `must be one of the names in pod.spec.resourceClaims${podClaims.shown}`));
    }
    return causes;
  });
}

const resizableResources = ["cpu", "memory"];
const resizePolicies = ["NotRequired", "RestartContainer"];

/** Validates the resize policies of a container. As in kube-apiserver, only repeated resources are reported with their index. */
export function* resizePolicyCauses(policies: readonly unknown[], path: string, podRestartPolicy: unknown): Causes {
  const resources = new Set<string>();
  yield* eachItem(policies, (policy, index) => {
    const resource = textAt(policy, "resourceName");
    const restart = textAt(policy, "restartPolicy");
    const causes = resources.has(resource) ? [duplicateCause(`${path}[${index}]`, resource)] : [];
    resources.add(resource);
    causes.push(...(resource === "" ? [requiredCause(path)] : check.oneOf(path, resource, resizableResources)));
    causes.push(...(restart === "" ? [requiredCause(path)] : check.oneOf(path, restart, resizePolicies)));
    if (podRestartPolicy === "Never" && restart !== "NotRequired") {
      causes.push(invalidCause(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'"));
    }
    return causes;
  });
}

/** Billionths in a whole amount. */
const unit = 1_000_000_000n;

/** One entry of limits or requests. */
interface Amount {
  readonly name: string;
  readonly value: unknown;
  /** Billionths; undefined if the value is not a quantity. */
  readonly nanos: bigint | undefined;
  readonly isCounted: boolean;
}

function* amountsOf(amounts: Readonly<Record<string, unknown>>): Steps<ReadonlyMap<string, Amount>> {
  const result = new Map<string, Amount>();
  for (const [name, value] of Object.entries(amounts)) {
    yield;
    result.set(name, { name, value, nanos: nanosOf(value), isCounted: isExtended(name) });
  }
  return result;
}

function* amountCauses(amounts: ReadonlyMap<string, Amount>, path: string, nameCausesOf: typeof nameCauses): Causes {
  yield* eachItem(amounts.values(), ({ name, value, nanos, isCounted }) => {
    const field = `${path}[${name}]`;
    const causes = nameCausesOf(field, name, isCounted);
    if (nanos === undefined) return causes;
    if (nanos < 0n) causes.push(invalidCause(field, value, "must be greater than or equal to 0"));
    if (isCounted && nanos % unit !== 0n) causes.push(invalidCause(field, value, "must be an integer"));
    return causes;
  });
}

function nanosOf(value: unknown): bigint | undefined {
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  try {
    return parseQuantity(value).nanos;
  } catch {
    return undefined;
  }
}

function requestCauses({ name, value, nanos, isCounted }: Amount, limit: Amount | undefined, path: string): StatusCause[] {
  const isShareable = !isCounted && !isHugePages(name);
  const causes: StatusCause[] = [];
  if (limit === undefined && !isShareable) {
    causes.push(requiredCause(`${path}.limits`, "Limit must be set for non overcommitable resources"));
  }
  if (nanos === undefined || limit?.nanos === undefined || nanos === limit.nanos) return causes;
  const shown = String(limit.value);
  if (!isShareable) {
    causes.push(invalidCause(`${path}.requests`, value, `must be equal to ${name} limit of ${shown}`));
  } else if (nanos > limit.nanos) {
    causes.push(invalidCause(`${path}.requests`, value, `must be less than or equal to ${name} limit of ${shown}`));
  }
  return causes;
}

/** Validates the name of a resource of a container; empty is allowed. */
export function containerResourceNameCauses(field: string, name: string): StatusCause[] {
  return name === "" ? [] : nameCauses(field, name);
}

function nameCauses(field: string, name: string, isCounted = isExtended(name)): StatusCause[] {
  // An extended resource has a valid name.
  if (isCounted) return [];
  const causes = qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault));
  if (name.includes("/")) {
    return isNative(name) ? causes : [...causes, invalidCause(field, name, "doesn't follow extended resource name standard")];
  }
  if (standardResource.test(name)) return causes;
  if (causes.length === 0 && !knownResources.has(name)) {
    causes.push(invalidCause(field, name, "must be a standard resource type or fully qualified"));
  }
  return [...causes, invalidCause(field, name, "must be a standard resource for containers")];
}

function isHugePages(name: string): boolean {
  return name.startsWith("hugepages-");
}

function isNative(name: string): boolean {
  return !name.includes("/") || name.includes("kubernetes.io/");
}

/** Whether a resource has its own domain and so integer quantities, as those of device plugins (`nvidia.com/gpu`) have. */
function isExtended(name: string): boolean {
  return !isNative(name) && !name.startsWith("requests.") && qualifiedNameFaults(`requests.${name}`).length === 0;
}

/** Resources of a Pod itself. */
const podResourceName = /^(?:cpu|memory|hugepages-.+)$/;

/** Validates the name of a resource of a Pod itself. */
function podNameCauses(field: string, name: string): StatusCause[] {
  const causes = qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault));
  if (causes.length > 0 || podResourceName.test(name)) return causes;
  if (!name.includes("/") && !standardResource.test(name) && !knownResources.has(name)) {
    return [invalidCause(field, name, "must be a standard resource type or fully qualified")];
  }
  return [notSupportedCause(field, name, ["cpu", "hugepages-", "memory"])];
}

/** Validates the resources of a Pod itself (KEP-2837), which bound those of its containers. */
export function* podResourceCauses(spec: unknown, path: string, podClaims: PodClaims): Causes {
  const own = valueAt(spec, "resources");
  if (own === undefined) return;
  if (textAt(spec, "os", "name") === "windows") {
    yield forbiddenCause(path, "may not be set for a windows pod");
    return;
  }
  if (valueAt(own, "claims") !== undefined) {
    yield forbiddenCause(`${path}.claims`, "claims may not be set for Resources at pod-level");
  }
  yield* resourceCauses(own, path, podClaims, podNameCauses);
  const requests = amountsByName(mapAt(own, "requests"));
  for (const [name, sum] of Object.entries(containerRequests(spec))) {
    const request = requests[name];
    if (request === undefined || compareQuantities(sum, request) <= 0) continue;
    const detail = `must be greater than or equal to aggregate container requests of ${formatQuantity(sum)}`;
    yield invalidCause(`${path}.requests[${name}]`, formatQuantity(request), detail);
  }
  const limits = amountsByName(mapAt(own, "limits"));
  for (const [index, container] of listAt(spec, "containers").entries()) {
    yield;
    for (const [name, limit] of Object.entries(amountsByName(mapAt(container, "resources", "limits")))) {
      const bound = limits[name];
      if (bound === undefined || compareQuantities(limit, bound) <= 0) continue;
      // kube-apiserver names this field.
      const field = `${path}.containers[${index}][${name}].limits`;
      yield invalidCause(field, formatQuantity(limit), `must be less than or equal to pod limits of ${formatQuantity(bound)}`);
    }
  }
}

/** Resources without a domain that only quotas count. */
const knownResources: ReadonlySet<string> = new Set([
  "configmaps",
  "limits.cpu",
  "limits.ephemeral-storage",
  "limits.memory",
  "persistentvolumeclaims",
  "pods",
  "replicationcontrollers",
  "requests.cpu",
  "requests.ephemeral-storage",
  "requests.memory",
  "requests.storage",
  "resourcequotas",
  "secrets",
  "services",
  "services.loadbalancers",
  "services.nodeports",
  "storage",
]);

const standardResource = /^(?:cpu|memory|ephemeral-storage|hugepages-.+)$/;
