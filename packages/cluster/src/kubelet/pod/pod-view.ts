import type { DeepReadonly } from "@keelson/api-machinery";
import type { Container, PodObject, Probe } from "@keelson/api-machinery/kinds";

/** A Pod as it comes out of a cache. */
export type PodView = DeepReadonly<PodObject>;
/** A container of it. */
export type ContainerView = DeepReadonly<Container>;
/** A probe or hook of a container. */
export type ProbeView = DeepReadonly<Probe>;

/**
 * What a container is for its Pod. An `init` container runs to its end before the next one starts; a `sidecar` is an init container
 * with `restartPolicy: Always`: it goes on beside the `main` ones and stops after them.
 */
export type Role = "init" | "sidecar" | "main";

/** A container with its role, in the order in which they start. */
export interface PlannedContainer {
  readonly role: Role;
  readonly container: ContainerView;
}

/** All containers of a Pod in the order in which they start. */
export function plannedContainers(pod: PodView): readonly PlannedContainer[] {
  return [
    ...(pod.spec.initContainers ?? []).map((container) => ({
      role: container.restartPolicy === "Always" ? ("sidecar" as const) : ("init" as const),
      container,
    })),
    ...pod.spec.containers.map((container) => ({ role: "main" as const, container })),
  ];
}

/** The name that a program of a container has in its driver: one for every attempt. */
export function programId(podUid: string, container: string, attempt: number): string {
  return `${podUid}.${container}.${attempt}`.toLowerCase();
}

/** From the first signal to the last one, in milliseconds: what the delete asked for, else the Pod's own, else 30 s. */
export function graceMs(pod: PodView): number {
  return (pod.metadata.deletionGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30) * 1000;
}

/** `namespace/name`. */
export function podKey(pod: { readonly metadata: { readonly namespace?: string; readonly name?: string } }): string {
  return `${pod.metadata.namespace ?? ""}/${pod.metadata.name ?? ""}`;
}
