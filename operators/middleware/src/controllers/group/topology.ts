import { ConfigMap, PersistentVolumeClaim, Pod, Service } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import type { Instance, RenderedGroup } from "../../plugin/render-group.ts";
import type { Effect } from "../effect.ts";
import type { Next } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { continueRestart, stopAll } from "./restart.ts";
import { reconcileFailover } from "../primary/failover.ts";
import { reconcileMembers } from "../primary/members.ts";
import { withRebuild } from "../primary/requested-restart.ts";
import { reconcileRoles } from "../primary/roles.ts";
import { continueSwitchover } from "../primary/switchover.ts";
import { awaitAgents } from "./await-agents.ts";
import type { PodView } from "./pod-view.ts";
import { upgradeData } from "./upgrade-data.ts";

/** Maintains the topology, with or without an operation: all Pods exist, one is the primary, and the others follow it. */
export function reconcileTopology(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  const { restarting, switchover } = status;
  if (restarting !== undefined) return continueRestart(observed, restarting, views);
  if (switchover !== undefined) return continueSwitchover(switchover, views, status);
  if (observed.group.spec.stopped) return stopAll(views, status);
  const present = views.filter((view) => view.instance !== undefined);
  const steps: readonly (() => Next)[] = [
    // First, because a failover may need the agent of the missing Pod for its majority.
    () => startMissing(observed, rendered, views, status),
    () => upgradeData(observed, rendered, present, status),
    () => reconcileFailover(observed, views, status),
    () => awaitAgents(observed, present, status),
    () => reconcileRoles(present, views, status),
    () => labelRoles(views),
    () => reconcileMembers(observed.group, present, status),
  ];
  for (const step of steps) {
    const next = step();
    if (next.kind !== "settled") return next;
  }
  return { kind: "settled" };
}

/** Starts Pods and Services that do not exist. */
export function startMissing(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  const missing = rendered.instances.filter(
    (instance) => !views.some((view) => view.name === instance.name && view.pod !== undefined),
  );
  const services = rendered.services.filter(
    (service) => !observed.services.some((each) => each.metadata.name === service.metadata.name),
  );
  if (missing.length === 0 && services.length === 0) return { kind: "settled" };
  return {
    kind: "do",
    message: `starting ${missing.map((instance) => instance.name).join(", ")}`,
    effects: [
      ...services.map((object): Effect => ({ kind: "apply", type: Service, object })),
      ...missing.flatMap((instance) => startEffects(withRebuild(instance, status), observed)),
    ],
  };
}

/** Labels the first Pod whose label differs from its role. */
function labelRoles(views: readonly PodView[]): Next {
  const view = views.find(({ role, pod }) => role && pod && pod.metadata.labels?.[labels.role] !== role.role);
  if (view?.role === undefined || view.pod === undefined) return { kind: "settled" };
  const { name = "", namespace = "" } = view.pod.metadata;
  const metadata = { name, namespace, labels: { [labels.role]: view.role.role } };
  return {
    kind: "do",
    message: `labelling ${name} as ${view.role.role}`,
    effects: [{ kind: "apply", type: Pod, object: { apiVersion: "v1", kind: "Pod", metadata } }],
  };
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
