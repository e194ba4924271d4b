import { type DeepReadonly, parseJsonObject } from "@keelson/api-machinery";
import type { Group, GroupStatus } from "../../api/group.ts";
import { annotations } from "../../api/names.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import type { Next } from "../group/next.ts";
import { isSynced, type PodView } from "../group/pod-view.ts";
import { switchover } from "./switchover.ts";

/** Performs a switchover that a user requested with an annotation, once, while the Group is settled and no operation runs. */
export function requestedSwitchover(
  group: DeepReadonly<Group>,
  views: readonly PodView[],
  status: GroupStatus,
  rendered: RenderedGroup,
): Next {
  const { switchoverControl: control } = status;
  const primary = views.find((view) => view.name === status.primary?.pod);
  const request = parseRequest(group.metadata.annotations?.[annotations.switchoverControl]);
  if (control?.result === "running") return answer(control.id, primary?.name ?? "refused: the primary was lost");
  if (request === undefined || request.id === control?.id) return { kind: "settled" };
  if (primary === undefined) return answer(request.id, "refused: there is no primary");
  const target = request.to === undefined ? undefined : views.find((view) => view.name === request.to);
  if (request.to === primary.name) return answer(request.id, `refused: ${primary.name} is already the primary`);
  if (request.to !== undefined && (target === undefined || !isSynced(target, status, views)))
    return answer(request.id, `refused: ${request.to} is not a replica in sync`);
  const next = switchover(primary, target === undefined ? views : [primary, target], status, rendered);
  if (next.kind === "fail") return answer(request.id, `refused: ${next.message}`);
  if (next.kind !== "record") return next;
  return {
    ...next,
    change: (changed) => {
      next.change(changed);
      changed.switchoverControl = { id: request.id, result: "running" };
    },
  };
}

function answer(id: string, result: string): Next {
  return {
    kind: "record",
    message: `switchover: ${result}`,
    change: (next) => {
      next.switchoverControl = { id, result };
    },
  };
}

/** Parses the annotation. A malformed one is ignored. */
function parseRequest(text: string | undefined): { readonly id: string; readonly to?: string } | undefined {
  if (text === undefined) return undefined;
  const { id, to } = parseJsonObject(text) ?? {};
  if (typeof id !== "string") return undefined;
  return { id, ...(typeof to === "string" ? { to } : {}) };
}
