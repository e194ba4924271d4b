import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject, PriorityClassObject, RuntimeClassObject } from "@keelson/api-machinery/kinds";

type PodSpec = DeepReadonly<PodObject>["spec"];

/** The cluster's classes that Pods name. */
export interface PodClasses {
  readonly priorityClasses: readonly DeepReadonly<PriorityClassObject>[];
  readonly runtimeClasses: readonly DeepReadonly<RuntimeClassObject>[];
}

/**
 * The spec that Pods of a template have once they are admitted: with the overhead, node selector and tolerations of their RuntimeClass, as
 * with the admission plugin `RuntimeClass`. Pods of a RuntimeClass that does not exist are rejected; their spec is returned unchanged.
 */
export function admittedPodSpec(spec: PodSpec, { runtimeClasses }: Pick<PodClasses, "runtimeClasses">): PodSpec {
  const { runtimeClassName } = spec as { readonly runtimeClassName?: string };
  const found = runtimeClassName ? runtimeClasses.find(({ metadata }) => metadata.name === runtimeClassName) : undefined;
  if (found === undefined) return spec;
  const { podFixed } = found.overhead ?? {};
  const { nodeSelector, tolerations = [] } = found.scheduling ?? {};
  return {
    ...spec,
    ...(podFixed === undefined ? {} : { overhead: podFixed }),
    ...(nodeSelector === undefined ? {} : { nodeSelector: { ...spec.nodeSelector, ...nodeSelector } }),
    ...(tolerations.length === 0 ? {} : { tolerations: [...(spec.tolerations ?? []), ...tolerations] }),
  };
}

/** The priority of Pods with this PriorityClass, or of the default class if undefined. 0 if the class does not exist. */
export function priorityOfClass(name: string | undefined, { priorityClasses }: Pick<PodClasses, "priorityClasses">): number {
  const found = priorityClasses.find(({ metadata, globalDefault }) => (name ? metadata.name === name : globalDefault === true));
  return found?.value ?? 0;
}
