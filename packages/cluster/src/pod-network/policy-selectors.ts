import type { DeepReadonly } from "@keelson/api-machinery";
import { type LabelSelector, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";

/** Compiles a selector of a policy. One that the API server should have rejected becomes `fallback`. */
export function policySelector(selector: DeepReadonly<LabelSelector>, fallback: Selector): Selector {
  try {
    // Selectors are only read.
    return selectorFromObject(selector as LabelSelector);
  } catch {
    return fallback;
  }
}
