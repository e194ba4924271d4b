import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { changeServices, growVolumes } from "../group/change.ts";
import type { Next } from "../group/next.ts";
import type { GroupObservation } from "../group/observation.ts";
import { isHeld, isOutdated, isPodReady, type PodView } from "../group/pod-view.ts";
import { restartAll } from "../group/restart.ts";
import { namesOf } from "./reconcile-agentless.ts";

/**
 * Applies an operation to a Group without agents, once all Pods of its revision are ready: volumes, then outdated Pods, then superfluous
 * ones, then Services. The first Pod of a revision is replaced alone, and must become ready before the others follow in batches.
 */
export function changeAgentless(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  _status: GroupStatus,
): Next {
  const volumes = growVolumes(observed, rendered);
  if (volumes.kind !== "settled") return volumes;
  const batch = nextBatch(views, observed.group.spec.rollingUpdate?.maxUnavailable ?? 1);
  if (batch.length > 0) return restartAll(batch, `restarting ${namesOf(batch)}`);
  const superfluous = views.filter((view) => view.instance === undefined && view.pod !== undefined);
  if (superfluous.length > 0) return restartAll(superfluous, `removing ${namesOf(superfluous)}`, true);
  return changeServices(observed, rendered);
}

/** The outdated Pods to replace next: those that do not serve anyway first, then from the highest ordinal. */
function nextBatch(views: readonly PodView[], maxUnavailable: number): readonly PodView[] {
  const present = views.filter((view) => view.instance !== undefined && !isHeld(view));
  const outdated = present.filter(isOutdated).reverse();
  const isCanary = outdated.length === present.length;
  const ordered = [...outdated.filter((view) => !isPodReady(view)), ...outdated.filter(isPodReady)];
  return ordered.slice(0, isCanary ? 1 : maxUnavailable);
}
