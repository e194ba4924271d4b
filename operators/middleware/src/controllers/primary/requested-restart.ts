import { type DeepReadonly, draft, parseJsonObject } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import type { Group, GroupStatus } from "../../api/group.ts";
import { annotations } from "../../api/names.ts";
import type { Instance, RenderedGroup } from "../../plugin/render-group.ts";
import type { Next } from "../group/next.ts";
import type { PodView } from "../group/pod-view.ts";
import { restart } from "../group/restart.ts";
import { switchover } from "./switchover.ts";

/** Environment variable of a Pod that discards its data: the id of the request. */
const rebuildVariable = "KEELSON_REBUILD";

interface Request {
  readonly id: string;
  readonly pod?: string;
  readonly rebuild: boolean;
}

/**
 * Restarts Pods that a user requested with an annotation, once, while no operation runs: one by one, each when the others are in
 * sync, the primary last and after it handed its role over. A Pod to rebuild may be down; `topology` is the next step otherwise.
 */
export function requestedRestart(
  group: DeepReadonly<Group>,
  views: readonly PodView[],
  status: GroupStatus,
  rendered: RenderedGroup,
  topology: Next,
): Next {
  const { restartControl: control } = status;
  if (control?.result === "running") return continueRequest(control, views, status, rendered, topology);
  const request = parseRequest(group.metadata.annotations?.[annotations.restartControl]);
  if (request === undefined || request.id === control?.id) return topology;
  if (topology.kind !== "settled" && !request.rebuild) return topology;
  const targets = views.filter(({ name, pod }) => pod !== undefined && (request.pod === undefined || name === request.pod));
  if (targets.length === 0) return answer(request.id, `refused: ${request.pod ?? "the Group"} has no Pod`);
  if (request.rebuild && !rendered.hasAgents)
    return answer(request.id, "refused: Pods without agents cannot be rebuilt; restart them instead");
  if (request.rebuild && (request.pod === undefined || request.pod === status.primary?.pod))
    return answer(
      request.id,
      `refused: ${request.pod ?? "the Group"} is the primary; hand its role over first with switchover`,
    );
  const pods = targets.map(({ name, pod }) => ({ name, uid: pod?.metadata.uid ?? "" }));
  return {
    kind: "record",
    message: `restarting ${pods.map(({ name }) => name).join(", ")}`,
    change: (next) => {
      next.restartControl = { id: request.id, result: "running", pods, ...(request.rebuild ? { rebuild: true } : {}) };
    },
  };
}

function continueRequest(
  { id, pods = [], rebuild }: NonNullable<GroupStatus["restartControl"]>,
  views: readonly PodView[],
  status: GroupStatus,
  rendered: RenderedGroup,
  topology: Next,
): Next {
  const remaining = views.filter(({ name, pod }) =>
    pods.some((each) => each.name === name && each.uid === pod?.metadata.uid && pod.metadata.deletionTimestamp === undefined),
  );
  const primary = views.find(({ name }) => name === status.primary?.pod);
  const replica = remaining.findLast((view) => view !== primary);
  if (rebuild === true && replica !== undefined) return restart(replica, `rebuilding ${replica.name}`);
  if (topology.kind !== "settled") return topology;
  if (replica !== undefined) return restart(replica, `restarting ${replica.name}`);
  if (primary === undefined || !remaining.includes(primary)) return answer(id, "done");
  if (views.length === 1) return restart(primary, `restarting ${primary.name}`);
  const next = switchover(primary, views, status, rendered);
  return next.kind === "fail" ? answer(id, `refused: ${next.message}`) : next;
}

/** An instance whose Pod discards its data, while that is requested. */
export function withRebuild(instance: Instance, { restartControl: control }: GroupStatus): Instance {
  const isRequested = control?.result === "running" && control.rebuild === true;
  if (!isRequested || control.pods?.some(({ name }) => name === instance.name) !== true) return instance;
  const pod = draft(instance.pod) as PodObject;
  for (const container of pod.spec?.containers ?? [])
    container.env = [...(container.env ?? []), { name: rebuildVariable, value: control.id }];
  return { ...instance, pod };
}

function answer(id: string, result: string): Next {
  return {
    kind: "record",
    message: `restart: ${result}`,
    change: (next) => {
      next.restartControl = { id, result };
    },
  };
}

/** Parses the annotation. A malformed one is ignored. */
function parseRequest(text: string | undefined): Request | undefined {
  if (text === undefined) return undefined;
  const { id, pod, rebuild } = parseJsonObject(text) ?? {};
  if (typeof id !== "string") return undefined;
  return { id, ...(typeof pod === "string" ? { pod } : {}), rebuild: rebuild === true };
}
