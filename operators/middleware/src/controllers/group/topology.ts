import { ConfigMap, PersistentVolumeClaim, Pod, Service } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import { configHashAnnotation, labels } from "../../api/names.ts";
import type { Instance, RenderedGroup } from "../../plugin/render-group.ts";
import type { Effect } from "../effect.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { continueRestart, restart, stopAll } from "./restart.ts";
import { reconcileFailover } from "../primary/failover.ts";
import { reconcileRoles } from "../primary/roles.ts";
import { continueSwitchover } from "../primary/switchover.ts";
import { crashMessage } from "./crash-message.ts";
import { isOutdated, type PodView } from "./pod-view.ts";

/** Maintains the topology, with or without an operation: all Pods exist, one is the primary, and the others follow it. */
export function reconcileTopology(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  const { group } = observed;
  const { restarting } = status;
  if (restarting !== undefined) return continueRestart(observed, restarting, views);
  if (status.switchover !== undefined) return continueSwitchover(status.switchover, views, status);
  if (group.spec.stopped) return stopAll(views, status);

  const failover = reconcileFailover(observed, views, status);
  if (failover.kind !== "settled") return failover;
  const missing = rendered.instances.filter(
    (instance) => !views.some((view) => view.name === instance.name && view.pod !== undefined),
  );
  const services = rendered.services.filter(
    (service) => !observed.services.some((each) => each.metadata.name === service.metadata.name),
  );
  if (missing.length > 0 || services.length > 0) {
    const names = missing.map((instance) => instance.name);
    return {
      kind: "do",
      message: `starting ${names.join(", ")}`,
      effects: [
        ...services.map((object): Effect => ({ kind: "apply", type: Service, object })),
        ...missing.flatMap((instance) => startEffects(instance, observed)),
      ],
    };
  }
  const present = views.filter((view) => view.instance !== undefined);
  for (const view of present) {
    if (view.role !== undefined || view.pod === undefined) continue;
    const { pod } = view;
    if (pod.metadata.deletionTimestamp !== undefined) return wait(`waiting for the old Pod ${view.name} to terminate`);
    const config = observed.configs.find((each) => each.metadata.name === view.instance?.config?.metadata.name);
    const isOld =
      isOutdated(view) || (config !== undefined && config.metadata.annotations?.[configHashAnnotation] !== rendered.configHash);
    const hasTerminated = pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded";
    // The Pod serves no clients, so it can be replaced by the desired one immediately.
    if (hasTerminated || (isOld && status.operation?.phase === "Running"))
      return restart(view, `replacing ${view.name}, which is down`);
    const crash = status.operation?.phase === "Running" ? crashMessage(pod) : undefined;
    if (crash !== undefined) return { kind: "fail", message: `${view.name} does not start: ${crash}`, errorClass: "Config" };
    return wait(`waiting for the agent of ${view.name}`);
  }
  const roles = reconcileRoles(present, views, status);
  if (roles.kind !== "settled") return roles;
  const unlabelled = views.find((view) => view.role && view.pod && view.pod.metadata.labels?.[labels.role] !== view.role.role);
  if (unlabelled?.role !== undefined && unlabelled.pod !== undefined) {
    const { name = "", namespace = "" } = unlabelled.pod.metadata;
    return {
      kind: "do",
      message: `labelling ${name} as ${unlabelled.role.role}`,
      effects: [
        {
          kind: "apply",
          type: Pod,
          object: {
            apiVersion: "v1",
            kind: "Pod",
            metadata: { name, namespace, labels: { [labels.role]: unlabelled.role.role } },
          },
        },
      ],
    };
  }
  return { kind: "settled" };
}

function startEffects(instance: Instance, { claims }: GroupObservation): Effect[] {
  const { config, claim, pod } = instance;
  const hasClaim = claims.some((each) => each.metadata.name === claim?.metadata.name);
  return [
    ...(config === undefined ? [] : [{ kind: "apply" as const, type: ConfigMap, object: config }]),
    ...(claim === undefined || hasClaim ? [] : [{ kind: "apply" as const, type: PersistentVolumeClaim, object: claim }]),
    { kind: "apply", type: Pod, object: pod },
  ];
}
