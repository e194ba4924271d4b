import { type LabelSelector, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Resource } from "../functions/function.ts";
import { valueAt } from "../functions/read.ts";
import type { Observation, Target } from "./target.ts";

/** Kinds whose Pods are selected by `spec.selector`. */
const workloadKinds = new Set(["apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet", "batch/Job"]);

const isWorkload = (apiVersion: string, kind: string): boolean => workloadKinds.has(`${apiVersion.split("/")[0]}/${kind}`);

const podsOfWorkload = (workload: Target): Target => ({
  ...{ apiVersion: "v1", kind: "Pod", namespace: workload.namespace, workload },
  ...(workload.cluster === undefined ? {} : { cluster: workload.cluster }),
});

/** Targets that must be watched with a target: the Pods of a workload. */
export function relatedTargets(target: Target): readonly Target[] {
  return isWorkload(target.apiVersion, target.kind) ? [podsOfWorkload(target)] : [];
}

/** Whether a target is a Pod or has Pods. */
export const hasPods = (target: Target): boolean => target.kind === "Pod" || relatedTargets(target).length > 0;

/** Reads the Pods of a target's objects: `loading` until they are listed, undefined if they have none or cannot be read. */
export function createPodsOf(
  observe: (target: Target) => Observation,
  target: Target | undefined,
): (workload: NonNullable<Resource>) => readonly NonNullable<Resource>[] | "loading" | undefined {
  const [pods] = target === undefined ? [] : relatedTargets(target);
  if (pods === undefined) return () => undefined;
  return (workload) => {
    const observation = observe(pods);
    if (observation.kind === "loading") return observation.error === undefined ? "loading" : undefined;
    if (observation.kind === "unknown-kind") return undefined;
    const selector = podSelector(workload);
    return observation.objects.filter((pod) =>
      selector.matches(valueAt(pod, "metadata", "labels") as Readonly<Record<string, string>> | undefined),
    );
  };
}

/** The selector of a workload's Pods. **Errors**: throws for an unknown operator. */
const podSelector = (workload: NonNullable<Resource>): Selector =>
  selectorFromObject(valueAt(workload, "spec", "selector") as LabelSelector | undefined);

/**
 * Decides whether changes of Pods may matter to a test of workloads. True for a selector that is not valid, which another cluster can send and
 * the test reports. Every event of a Pod is compared with the workloads of all tests, so a selector is parsed once.
 */
export class PodInterest {
  readonly #selectors = new WeakMap<object, Selector | "invalid">();

  maySelect(
    workload: NonNullable<Resource>,
    { metadata }: { readonly metadata: { readonly labels?: Readonly<Record<string, string>> } },
  ): boolean {
    const selector = this.#selectorOf(workload);
    return selector === "invalid" || selector.matches(metadata.labels);
  }

  #selectorOf(workload: NonNullable<Resource>): Selector | "invalid" {
    // Objects of a watch are immutable, and unchanged parts of an object are shared with its next version.
    const key = valueAt(workload, "spec", "selector");
    const known = isObject(key) ? this.#selectors.get(key) : undefined;
    if (known !== undefined) return known;
    let selector: Selector | "invalid";
    try {
      selector = podSelector(workload);
    } catch {
      selector = "invalid";
    }
    if (isObject(key)) this.#selectors.set(key, selector);
    return selector;
  }
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
