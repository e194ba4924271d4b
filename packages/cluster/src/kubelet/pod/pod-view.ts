import type { DeepReadonly } from "@keelson/api-machinery";
import type { Container, PodObject, Probe } from "@keelson/api-machinery/kinds";

/** A Pod from the cache. */
export type PodView = DeepReadonly<PodObject>;
/** A container of a Pod. */
export type ContainerView = DeepReadonly<Container>;
/** A probe or hook of a container. */
export type ProbeView = DeepReadonly<Probe>;

/**
 * The role of a container. An `init` container runs to completion before the next one starts; a `sidecar` is an init container with
 * `restartPolicy: Always`, which runs alongside the `main` containers and stops after them (KEP-753). An `ephemeral` container is added to a
 * running Pod, is never restarted, and does not count for the Pod's phase and readiness (KEP-277).
 */
export type Role = "init" | "sidecar" | "main" | "ephemeral";

/** A container with its role. */
export interface PlannedContainer {
  readonly role: Role;
  readonly container: ContainerView;
}

/** All containers of a Pod in start order. */
export function plannedContainers(pod: PodView): readonly PlannedContainer[] {
  return [
    ...(pod.spec.initContainers ?? []).map((container) => ({
      role: container.restartPolicy === "Always" ? ("sidecar" as const) : ("init" as const),
      container,
    })),
    ...pod.spec.containers.map((container) => ({ role: "main" as const, container })),
    ...(pod.spec.ephemeralContainers ?? []).map((container) => ({ role: "ephemeral" as const, container })),
  ];
}

/** The id of a container's program, unique per attempt. */
export function programId(podUid: string, container: string, attempt: number): string {
  return `${podUid}.${container}.${attempt}`.toLowerCase();
}

/** The grace period in milliseconds: from the deletion, else from the Pod's spec, else 30 s. */
export function graceMs(pod: PodView): number {
  return (pod.metadata.deletionGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30) * 1000;
}

/** `namespace/name`. */
export function podKey(pod: { readonly metadata: { readonly namespace?: string; readonly name?: string } }): string {
  return `${pod.metadata.namespace ?? ""}/${pod.metadata.name ?? ""}`;
}
