import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import { revisionAnnotation, versionAnnotation } from "../../api/names.ts";
import type { PodState } from "../../api/parts.ts";
import type { Instance, RenderedGroup } from "../../plugin/render-group.ts";
import type { GroupObservation, Role } from "./observation.ts";

/** A Pod of a Group: observed and desired state. */
export interface PodView {
  readonly name: string;
  readonly pod: DeepReadonly<PodObject> | undefined;
  readonly instance: Instance | undefined;
  readonly role: Role | undefined;
  readonly ip: string | undefined;
}

/** All existing and desired Pods, by ordinal. */
export function podViews({ pods, roles }: GroupObservation, rendered: RenderedGroup): readonly PodView[] {
  const names = new Set([
    ...rendered.instances.map((instance) => instance.name),
    ...pods.map((pod) => pod.metadata.name ?? ""),
  ]);
  return [...names]
    .map((name): PodView => {
      const pod = pods.find((each) => each.metadata.name === name);
      const isTerminating = pod?.metadata.deletionTimestamp !== undefined;
      return {
        name,
        pod,
        instance: rendered.instances.find((each) => each.name === name),
        role: isTerminating ? undefined : answeredRole(roles.get(name)),
        ip: pod?.status?.podIP,
      };
    })
    .sort((a, b) => ordinalOf(a.name) - ordinalOf(b.name));
}

/** The role of a Pod whose program answers its agent. */
const answeredRole = (role: Role | undefined): Role | undefined => (role?.role === "unknown" ? undefined : role);

const ordinalOf = (name: string): number => Number(/-(\d+)$/.exec(name)?.[1] ?? 0);

/** Whether a Pod has its desired role and, as a replica, is in sync with the primary. */
export function isSynced(view: PodView, status: GroupStatus, views: readonly PodView[]): boolean {
  if (view.role === undefined) return false;
  const primary = views.find((each) => each.name === status.primary?.pod);
  if (primary === view) return view.role.role === "primary";
  return view.role.role === "replica" && view.role.isInSync && view.role.primaryHost === primary?.ip;
}

/** Whether a Pod was created from an outdated template. */
export function isOutdated({ pod, instance }: PodView): boolean {
  return pod?.metadata.annotations?.[revisionAnnotation] !== instance?.revision;
}

/** The state of a Pod as its agent reports it. */
function agentState(view: PodView, status: GroupStatus, views: readonly PodView[]): Partial<PodState> {
  return {
    role: view.role?.role ?? "unknown",
    ...(view.role?.version === undefined ? {} : { version: view.role.version }),
    ...(view.role?.configHash === undefined ? {} : { configHash: view.role.configHash }),
    ready: isSynced(view, status, views),
  };
}

/** Whether the partition holds a Pod at the last complete rollout. */
export const isHeld = ({ instance }: PodView): boolean => instance?.isHeld === true;

/** Whether the kubelet reports that a Pod serves. */
export function isPodReady({ pod }: PodView): boolean {
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return false;
  return pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

/** The state of a Pod without an agent. */
function agentlessState(view: PodView): Partial<PodState> {
  const version = view.pod?.metadata.annotations?.[versionAnnotation];
  return { ...(version === undefined ? {} : { version }), ready: isPodReady(view) };
}

/** The Pods in the status. */
export function podStates(views: readonly PodView[], status: GroupStatus, { hasAgents }: RenderedGroup): PodState[] {
  return views
    .filter((view) => view.pod !== undefined)
    .map((view) => ({
      name: view.name,
      uid: view.pod?.metadata.uid ?? "",
      ...(view.ip === undefined ? {} : { ip: view.ip }),
      ...(hasAgents ? agentState(view, status, views) : agentlessState(view)),
    }));
}
