import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  isQuantity,
  type QuantityLike,
} from "@keelson/api-machinery/quantity";
import { mapAt, objectsAt, textAt, valueAt } from "../../object-fields.ts";

/** Quantities by resource name. */
export type ResourceAmounts = Readonly<Record<string, QuantityLike>>;

/** The quantities in an object of resource names. */
export function amountsOf(value: Readonly<Record<string, unknown>>): ResourceAmounts {
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string | number] => isQuantity(entry[1])));
}

/** The sum of two sets of quantities. */
export function addAmounts(a: ResourceAmounts, b: ResourceAmounts): ResourceAmounts {
  const sum: Record<string, QuantityLike> = { ...a };
  for (const [name, amount] of Object.entries(b)) {
    const known = sum[name];
    sum[name] = formatQuantity(known === undefined ? amount : addQuantities(known, amount));
  }
  return sum;
}

/** The larger of both quantities for each resource. */
function maxAmounts(a: ResourceAmounts, b: ResourceAmounts): ResourceAmounts {
  const max: Record<string, QuantityLike> = { ...a };
  for (const [name, amount] of Object.entries(b)) {
    const known = max[name];
    if (known === undefined || compareQuantities(known, amount) < 0) max[name] = amount;
  }
  return max;
}

function containerResources(container: unknown, field: "requests" | "limits", status: unknown): ResourceAmounts {
  const desired = amountsOf(mapAt(container, "resources", field));
  const name = textAt(container, "name");
  const shown = ["containerStatuses", "initContainerStatuses"]
    .flatMap((list) => objectsAt(status, list))
    .find((each) => textAt(each, "name") === name);
  if (shown === undefined) return desired;
  const isInfeasible = objectsAt(status, "conditions").some(
    (condition) => textAt(condition, "type") === "PodResizePending" && textAt(condition, "reason") === "Infeasible",
  );
  const actual = amountsOf(mapAt(shown, "resources", field));
  const allocated = field === "requests" ? amountsOf(mapAt(shown, "allocatedResources")) : {};
  const held = maxAmounts(allocated, actual);
  return isInfeasible && Object.keys(held).length > 0 ? held : maxAmounts(desired, held);
}

/**
 * What a Pod requests, or its limits: the sum of its containers and sidecars, but at least what initialization needs, plus overhead.
 * Resources of the Pod itself (KEP-2837) replace those of its containers. With a `status`, a container that is being resized counts with the
 * largest of its desired, allocated and actual resources (KEP-1287).
 */
export function podResources(spec: unknown, field: "requests" | "limits", status?: unknown): ResourceAmounts {
  const of = (container: unknown): ResourceAmounts => containerResources(container, field, status);
  let running: ResourceAmounts = {};
  for (const container of objectsAt(spec, "containers")) running = addAmounts(running, of(container));
  let sidecars: ResourceAmounts = {};
  let initialization: ResourceAmounts = {};
  for (const container of objectsAt(spec, "initContainers")) {
    const isSidecar = textAt(container, "restartPolicy") === "Always";
    if (isSidecar) {
      running = addAmounts(running, of(container));
      sidecars = addAmounts(sidecars, of(container));
    }
    initialization = maxAmounts(initialization, isSidecar ? sidecars : addAmounts(sidecars, of(container)));
  }
  const containers = maxAmounts(running, initialization);
  const own = { ...containers, ...amountsOf(mapAt(spec, "resources", field)) };
  const overhead = amountsOf(mapAt(spec, "overhead"));
  const named = Object.fromEntries(
    Object.entries(overhead).filter(([name]) => field === "requests" || Object.hasOwn(own, name)),
  );
  return valueAt(spec, "overhead") === undefined ? own : addAmounts(own, named);
}

/** What the containers of a Pod request together, without resources of the Pod itself and overhead. */
export function containerRequests(spec: unknown): ResourceAmounts {
  return podResources({ containers: valueAt(spec, "containers"), initContainers: valueAt(spec, "initContainers") }, "requests");
}
