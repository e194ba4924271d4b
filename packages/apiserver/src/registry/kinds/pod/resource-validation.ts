import { compareQuantities, isQuantity, quantityToBytes } from "@keelson/api-machinery/quantity";
import {
  forbiddenCause,
  invalidCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { mapAt } from "../../object-fields.ts";

/** Validates ResourceRequirements. */
export function resourceCauses(resources: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const limits = mapAt(resources, "limits");
  const requests = mapAt(resources, "requests");
  for (const [field, amounts] of [
    ["limits", limits],
    ["requests", requests],
  ] as const) {
    for (const [name, amount] of Object.entries(amounts)) {
      causes.push(...nameCauses(`${path}.${field}[${name}]`, name));
      if (isQuantity(amount) && compareQuantities(amount, 0) < 0) {
        causes.push(invalidCause(`${path}.${field}[${name}]`, amount, "must be greater than or equal to 0"));
      }
      if (isCounted(name) && isQuantity(amount) && compareQuantities(quantityToBytes(amount), amount) !== 0) {
        causes.push(invalidCause(`${path}.${field}[${name}]`, amount, "must be an integer"));
      }
    }
  }
  for (const [name, request] of Object.entries(requests)) {
    const limit = Object.hasOwn(limits, name) ? limits[name] : undefined;
    const isShareable = !isCounted(name) && !isHugePages(name);
    if (limit === undefined && !isShareable) {
      causes.push(requiredCause(`${path}.limits`, "Limit must be set for non overcommitable resources"));
    }
    if (!isQuantity(request) || !isQuantity(limit)) continue;
    const difference = compareQuantities(request, limit);
    if (difference !== 0 && !isShareable) {
      causes.push(invalidCause(`${path}.requests`, request, `must be equal to ${name} limit of ${limit}`));
    } else if (difference > 0) {
      causes.push(invalidCause(`${path}.requests`, request, `must be less than or equal to ${name} limit of ${limit}`));
    }
  }
  const names = [...Object.keys(limits), ...Object.keys(requests)];
  if (names.some(isHugePages) && !names.includes("cpu") && !names.includes("memory")) {
    causes.push(forbiddenCause(path, "HugePages require cpu or memory"));
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

/** Whether a resource has integer quantities, as device plugins' resources (`nvidia.com/gpu`) have. */
function isCounted(name: string): boolean {
  return isExtended(name);
}

function isNative(name: string): boolean {
  return !name.includes("/") || name.includes("kubernetes.io/");
}

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
