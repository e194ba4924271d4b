import type { NodeContext } from "../../node-context.ts";
import type { PodView } from "../pod-view.ts";
import { sysctlPath } from "../admission/sysctls.ts";

/**
 * Whether a Pod has its own network namespace: if the node has a network of Pods, and the Pod's runtime can join it. The runtime is
 * that of its RuntimeClass of the same name.
 */
export function hasNetwork(node: Pick<NodeContext, "network" | "defaultRuntime">, { spec }: PodView): boolean {
  return (
    node.network !== undefined && spec.hostNetwork !== true && (spec.runtimeClassName ?? node.defaultRuntime) === "bubblewrap"
  );
}

/** Whether a Pod has the address of the node instead of one of its own. */
export function isOnNodeAddress(
  node: Pick<NodeContext, "network" | "defaultRuntime" | "sharesHostAddress">,
  pod: PodView,
): boolean {
  if (node.sharesHostAddress || pod.spec.hostNetwork === true) return true;
  return node.network !== undefined && !hasNetwork(node, pod);
}

/** Kernel parameters of a Pod's network that its `securityContext.sysctls` set, by path below /proc/sys. A name with other characters is left out. */
export function networkParameters({ spec }: PodView): Readonly<Record<string, string>> {
  const sysctls = spec.securityContext?.sysctls ?? [];
  const own = sysctls
    .filter(({ name }) => /^net(?:[./]\w[\w-]*)+$/.test(name))
    .map(({ name, value }) => [sysctlPath(name), value] as const);
  return Object.fromEntries(own);
}
