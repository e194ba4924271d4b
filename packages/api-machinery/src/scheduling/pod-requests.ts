import type { PodObject } from "../kinds/workload-objects.ts";
import type { DeepReadonly } from "../objects/json.ts";
import { parseQuantity } from "../values/quantity.ts";

/** Amounts by resource, in nano units. */
export type Amounts = ReadonlyMap<string, bigint>;

type Container = DeepReadonly<PodObject>["spec"]["containers"][number];
type Status = DeepReadonly<PodObject>["status"];

/**
 * The effective requests of a Pod (KEP-753): the sum of its containers and sidecars, or the peak of an init container plus the
 * sidecars started before it, whichever is larger, plus the overhead. A missing request defaults to the limit. During a resize, a
 * container counts with the largest of its desired, allocated and actual requests; with an infeasible one, the desired do not count
 * (KEP-1287).
 */
export function podRequests({ spec, status }: Pick<DeepReadonly<PodObject>, "spec" | "status">): Amounts {
  const requestsOf = (container: Container): Amounts => containerRequests(container, status);
  const total = new Map<string, bigint>();
  for (const container of spec.containers) addAmounts(total, requestsOf(container));
  const sidecars = new Map<string, bigint>();
  const peak = new Map<string, bigint>();
  for (const container of spec.initContainers ?? []) {
    const requests = requestsOf(container);
    if (container.restartPolicy === "Always") {
      addAmounts(total, requests);
      addAmounts(sidecars, requests);
      raise(peak, sidecars);
    } else {
      const together = new Map(sidecars);
      addAmounts(together, requests);
      raise(peak, together);
    }
  }
  raise(total, peak);
  const { overhead } = spec as { readonly overhead?: Readonly<Record<string, string>> };
  addAmounts(total, amountsOf(overhead ?? {}));
  return total;
}

/** Converts quantities to amounts. Invalid quantities are skipped. */
export function amountsOf(quantities: Readonly<Record<string, string | number>>): Amounts {
  const amounts = new Map<string, bigint>();
  for (const [resource, quantity] of Object.entries(quantities)) {
    try {
      amounts.set(resource, parseQuantity(quantity).nanos);
    } catch {
      // The API server rejects invalid quantities; one that got through must not block the scheduling of other Pods.
    }
  }
  return amounts;
}

/** Adds amounts to a sum. */
export function addAmounts(sum: Map<string, bigint>, amounts: Amounts): void {
  for (const [resource, amount] of amounts) sum.set(resource, (sum.get(resource) ?? 0n) + amount);
}

function raise(sum: Map<string, bigint>, amounts: Amounts): void {
  for (const [resource, amount] of amounts) if (amount > (sum.get(resource) ?? 0n)) sum.set(resource, amount);
}

function containerRequests({ name, resources }: Container, status: Status): Amounts {
  const desired = amountsOf({ ...resources?.limits, ...resources?.requests });
  const { containerStatuses = [], initContainerStatuses = [] } = status ?? {};
  const shown = [...containerStatuses, ...initContainerStatuses].find((each) => each.name === name);
  if (shown?.allocatedResources === undefined) return desired;
  const isInfeasible = status?.conditions?.some(({ type, reason }) => type === "PodResizePending" && reason === "Infeasible");
  const largest = new Map(isInfeasible === true ? [] : desired);
  raise(largest, amountsOf(shown.allocatedResources));
  raise(largest, amountsOf(shown.resources?.requests ?? {}));
  return largest;
}
