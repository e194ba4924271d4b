import { parseQuantity } from "@keelson/api-machinery/quantity";
import {
  causesOfItems,
  forbiddenCause,
  invalidCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { mapAt } from "../../object-fields.ts";

/** Validates ResourceRequirements. A container can have tens of thousands of resources: each name and amount is read once. */
export function resourceCauses(resources: unknown, path: string): StatusCause[] {
  const limits = amountsOf(mapAt(resources, "limits"));
  const requests = amountsOf(mapAt(resources, "requests"));
  const causes = [
    ...amountCauses(limits, `${path}.limits`),
    ...amountCauses(requests, `${path}.requests`),
    ...causesOfItems(requests.values(), (request) => requestCauses(request, limits.get(request.name), path)),
  ];
  const has = (name: string): boolean => limits.has(name) || requests.has(name);
  const hasHugePages = [limits, requests].some((amounts) => [...amounts.keys()].some(isHugePages));
  if (hasHugePages && !has("cpu") && !has("memory")) causes.push(forbiddenCause(path, "HugePages require cpu or memory"));
  return causes;
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

function amountsOf(amounts: Readonly<Record<string, unknown>>): ReadonlyMap<string, Amount> {
  const result = new Map<string, Amount>();
  for (const [name, value] of Object.entries(amounts)) {
    result.set(name, { name, value, nanos: nanosOf(value), isCounted: isExtended(name) });
  }
  return result;
}

function amountCauses(amounts: ReadonlyMap<string, Amount>, path: string): StatusCause[] {
  return causesOfItems(amounts.values(), ({ name, value, nanos, isCounted }) => {
    const field = `${path}[${name}]`;
    // An extended resource has a valid name.
    const causes = isCounted ? [] : nameCauses(field, name);
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

function nameCauses(field: string, name: string): StatusCause[] {
  const causes = qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault));
  if (name.includes("/")) {
    const isKnown = isNative(name) || (causes.length === 0 && isExtended(name));
    return isKnown ? causes : [...causes, invalidCause(field, name, "doesn't follow extended resource name standard")];
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

/** Whether a resource has a domain of its own and so integer quantities, as those of device plugins (`nvidia.com/gpu`) have. */
function isExtended(name: string): boolean {
  return !isNative(name) && !name.startsWith("requests.") && qualifiedNameFaults(`requests.${name}`).length === 0;
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
