import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { mapAt, objectsAt, valueAt } from "../../object-fields.ts";

/**
 * The QoS class by CPU and memory: `Guaranteed` if every container has limits for both and equal requests, `BestEffort` if no container
 * has any, else `Burstable`. Resources of the Pod itself count instead of those of its containers.
 */
export function qualityOfService(spec: unknown): "Guaranteed" | "Burstable" | "BestEffort" {
  const own = valueAt(spec, "resources");
  const containers =
    own === undefined ? [...objectsAt(spec, "initContainers"), ...objectsAt(spec, "containers")] : [{ resources: own }];
  let isAnyNamed = false;
  let isGuaranteed = true;
  for (const container of containers) {
    const limits = mapAt(container, "resources", "limits");
    const requests = mapAt(container, "resources", "requests");
    for (const resource of ["cpu", "memory"]) {
      const limit = amount(limits, resource);
      const request = amount(requests, resource);
      if (limit !== undefined || request !== undefined) isAnyNamed = true;
      if (limit === undefined || (request !== undefined && compareQuantities(limit, request) !== 0)) isGuaranteed = false;
    }
  }
  if (!isAnyNamed) return "BestEffort";
  return isGuaranteed ? "Guaranteed" : "Burstable";
}

/** A positive quantity. */
function amount(amounts: Readonly<Record<string, unknown>>, resource: string): string | number | undefined {
  const value = Object.hasOwn(amounts, resource) ? amounts[resource] : undefined;
  return isQuantity(value) && compareQuantities(value, 0) > 0 ? value : undefined;
}
