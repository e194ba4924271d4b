import { parseQuantity } from "@keelson/api-machinery/quantity";
import type { SeenPod } from "../workload/pod-state.ts";

/** Amounts by resource, in billionths. */
export type Amounts = ReadonlyMap<string, bigint>;

type SeenContainer = SeenPod["spec"]["containers"][number];

/**
 * What a Pod asks for: the sum of its containers and sidecars, or the most that an init container needs beside the sidecars
 * started before it, whichever is more, and its overhead. A container that only states a limit asks for that.
 */
export function podRequests({ spec }: SeenPod): Amounts {
  const total = new Map<string, bigint>();
  for (const container of spec.containers) add(total, requestsOf(container));
  const sidecars = new Map<string, bigint>();
  const peak = new Map<string, bigint>();
  for (const container of spec.initContainers ?? []) {
    const requests = requestsOf(container);
    if (container.restartPolicy === "Always") {
      add(total, requests);
      add(sidecars, requests);
      raise(peak, sidecars);
    } else {
      const together = new Map(sidecars);
      add(together, requests);
      raise(peak, together);
    }
  }
  raise(total, peak);
  const { overhead } = spec as { readonly overhead?: Readonly<Record<string, string>> };
  add(total, amountsOf(overhead ?? {}));
  return total;
}

/** Quantities as amounts. What is no quantity counts as none. */
export function amountsOf(quantities: Readonly<Record<string, string | number>>): Amounts {
  const amounts = new Map<string, bigint>();
  for (const [resource, quantity] of Object.entries(quantities)) {
    try {
      amounts.set(resource, parseQuantity(quantity).nanos);
    } catch {
      // The API server refuses such objects; one that got here all the same must not stop the scheduling of others.
    }
  }
  return amounts;
}

/** Adds amounts to a sum. */
export function add(sum: Map<string, bigint>, amounts: Amounts): void {
  for (const [resource, amount] of amounts) sum.set(resource, (sum.get(resource) ?? 0n) + amount);
}

function raise(sum: Map<string, bigint>, amounts: Amounts): void {
  for (const [resource, amount] of amounts) if (amount > (sum.get(resource) ?? 0n)) sum.set(resource, amount);
}

function requestsOf({ resources }: SeenContainer): Amounts {
  return amountsOf({ ...resources?.limits, ...resources?.requests });
}
