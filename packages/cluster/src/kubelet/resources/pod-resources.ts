import type { DeepReadonly } from "@keelson/api-machinery";
import type { ResourceRequirements } from "@keelson/api-machinery/kinds";
import { amountsOf } from "@keelson/api-machinery/scheduling";
import { type ContainerView, plannedContainers, type PodView, type Role } from "../pod/pod-view.ts";

/** Requests and limits of a container. */
export type Resources = DeepReadonly<ResourceRequirements>;

/** Resources by container name. */
export type PodResources = Readonly<Record<string, Resources>>;

/** The resources that can change while a container runs (KEP-1287). */
const resizable = ["cpu", "memory"] as const;
const fields = ["requests", "limits"] as const;

/** Whether containers of a role can be resized while they run. */
export function isResizable(role: Role): boolean {
  return role === "main" || role === "sidecar";
}

/** The resources of the containers that can be resized. */
export function resourcesOf(pod: PodView): PodResources {
  const containers = plannedContainers(pod).filter(({ role }) => isResizable(role));
  return Object.fromEntries(containers.map(({ container: { name, resources = {} } }) => [name, resources]));
}

/** Of CPU and memory, those whose request or limit differs. */
export function changedResources(a: Resources = {}, b: Resources = {}): readonly (typeof resizable)[number][] {
  return resizable.filter((resource) =>
    fields.some((field) => amountsOf(a[field] ?? {}).get(resource) !== amountsOf(b[field] ?? {}).get(resource)),
  );
}

/** The Pod with CPU and memory as allocated. Returns the same Pod if nothing differs. */
export function withResources(pod: PodView, allocated: PodResources): PodView {
  const current = resourcesOf(pod);
  const isSame = Object.entries(current).every(([name, own]) => changedResources(own, allocated[name] ?? own).length === 0);
  if (isSame) return pod;
  const replace = (container: ContainerView): ContainerView => {
    const resources = allocated[container.name];
    if (resources === undefined || current[container.name] === undefined) return container;
    return { ...container, resources: merge(container.resources, resources) };
  };
  const { initContainers } = pod.spec;
  const containers = pod.spec.containers.map(replace);
  return {
    ...pod,
    spec: { ...pod.spec, containers, ...(initContainers !== undefined && { initContainers: initContainers.map(replace) }) },
  };
}

function merge(own: Resources = {}, allocated: Resources): Resources {
  const of = (field: (typeof fields)[number]): Record<string, string | number> => {
    const values: Record<string, string | number> = { ...own[field] };
    for (const resource of resizable) {
      const value = allocated[field]?.[resource];
      if (value === undefined) delete values[resource];
      else values[resource] = value;
    }
    return values;
  };
  return { ...own, requests: of("requests"), limits: of("limits") };
}

/** Whether a container must restart before changes of these resources take effect. */
export function requiresRestart({ resizePolicy = [] }: ContainerView, changed: readonly string[]): boolean {
  return resizePolicy.some(
    ({ resourceName, restartPolicy }) => restartPolicy === "RestartContainer" && changed.includes(resourceName),
  );
}

/** The note of an event about a resize, in the format of the kubelet: a text and the Pod's resources. */
export function resizeNote(text: string, pod: PodView, generation: number, error?: string): string {
  const of = (containers: readonly ContainerView[] = []): object | undefined =>
    containers.length === 0 ? undefined : containers.map(({ name, resources = {} }) => ({ name, resources }));
  const { initContainers, containers } = pod.spec;
  return `${text}: ${JSON.stringify({ initContainers: of(initContainers), containers: of(containers), generation, error })}`;
}
