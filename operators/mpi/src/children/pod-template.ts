import type { DeepReadonly } from "@keelson/api-machinery";
import type { Container, JobObject, PodSpec } from "@keelson/api-machinery/kinds";
import type { PodTemplateOverlay } from "../api/rhino-job.ts";

type Template = JobObject["spec"]["template"];

/**
 * Adds a user's fields to the Pod template of a launcher or workers. What the launch needs wins: the command, our labels, variables and
 * volumes, and that the Pod is not restarted. The user's first container, or the one with the name of ours, is merged into ours; others run
 * alongside it.
 */
export function overlayTemplate(overlay: DeepReadonly<PodTemplateOverlay> | undefined, base: Template): Template {
  if (overlay === undefined) return base;
  const { metadata, spec = {} } = structuredClone(overlay) as PodTemplateOverlay;
  const { containers = [], initContainers = [], volumes = [], ...pod } = spec;
  const [ours] = base.spec.containers;
  const index = Math.max(
    containers.findIndex(({ name }) => name === ours?.name),
    0,
  );
  const merged = base.spec.containers.map((container) => overlayContainer(containers[index] ?? {}, container));
  const beside = containers.filter((_, each) => each !== index) as Container[];
  const result: PodSpec = {
    ...pod,
    ...base.spec,
    initContainers: [...(base.spec.initContainers ?? []), ...initContainers],
    volumes: [...(base.spec.volumes ?? []), ...volumes],
    containers: [...merged, ...beside],
    ...(pod.automountServiceAccountToken === undefined
      ? {}
      : { automountServiceAccountToken: pod.automountServiceAccountToken }),
    ...(pod.terminationGracePeriodSeconds === undefined
      ? {}
      : { terminationGracePeriodSeconds: pod.terminationGracePeriodSeconds }),
  };
  return {
    metadata: {
      ...base.metadata,
      labels: { ...metadata?.labels, ...base.metadata?.labels },
      annotations: { ...metadata?.annotations, ...base.metadata?.annotations },
    },
    spec: result,
  };
}

function overlayContainer(overlay: Partial<Container>, base: Container): Container {
  const { env = [], volumeMounts = [], ports = [], args: _, ...rest } = overlay;
  const ownNames = new Set(base.env?.map(({ name }) => name));
  return {
    ...rest,
    ...base,
    env: [...env.filter(({ name }) => !ownNames.has(name)), ...(base.env ?? [])],
    volumeMounts: [...(base.volumeMounts ?? []), ...volumeMounts],
    ports: [...(base.ports ?? []), ...ports],
  };
}
