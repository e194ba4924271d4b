import { controllerReference, type DeepReadonly, draft, type ObjectMeta } from "@keelson/api-machinery";
import type { PodSpec, PodTemplate } from "@keelson/api-machinery/kinds";
import type { Seen } from "./write.ts";

/** A Pod that is to be made. */
export interface NewPod {
  metadata: ObjectMeta;
  spec: PodSpec;
}

/** The Pod that a workload makes of its template: controlled by the workload, with a name of the server's choice. */
export function podFromTemplate(owner: Seen, template: DeepReadonly<PodTemplate> | undefined): NewPod {
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
    spec: draft((template?.spec ?? { containers: [] }) as PodSpec) as PodSpec,
  };
}

/** The beginning of a Pod's name. A Pod's name is a label of a host too, so a long one is cut, dots and all. */
export function generatedPrefix(owner: string): string {
  return `${owner.slice(0, 57)}-`;
}
