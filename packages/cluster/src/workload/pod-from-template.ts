import { controllerReference, type DeepReadonly, draft, type ObjectMeta } from "@keelson/api-machinery";
import type { PodSpec, PodTemplate } from "@keelson/api-machinery/kinds";
import type { Cached } from "./write.ts";

/** A Pod to create. */
export interface NewPod {
  metadata: ObjectMeta;
  spec: PodSpec;
}

/** Builds a Pod from a workload's template, controlled by the workload, with a generated name. */
export function podFromTemplate(owner: Cached, template: DeepReadonly<PodTemplate> | undefined): NewPod {
  const { labels, annotations, finalizers } = template?.metadata ?? {};
  return {
    metadata: {
      generateName: generatedPrefix(owner.metadata.name ?? ""),
      ...(owner.metadata.namespace === undefined ? {} : { namespace: owner.metadata.namespace }),
      labels: { ...labels },
      annotations: { ...annotations },
      ...(finalizers === undefined ? {} : { finalizers: [...finalizers] }),
      ownerReferences: [controllerReference(owner)],
    },
    spec: draft((template?.spec ?? { containers: [] }) as PodSpec),
  };
}

/** The prefix of generated Pod names. A Pod's name is also its host name, so a long owner name is truncated. */
export function generatedPrefix(owner: string): string {
  return `${owner.slice(0, 57)}-`;
}
