import { PersistentVolumeClaim, Service } from "@keelson/api-machinery/kinds";
import { compareQuantities } from "@keelson/api-machinery/quantity";
import type { GroupStatus } from "../../api/group.ts";
import { revisionAnnotation } from "../../api/names.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { changePods } from "./parameters.ts";
import { restart } from "./restart.ts";
import { switchover } from "../primary/switchover.ts";
import type { PodView } from "./pod-view.ts";

/** Applies an operation once the topology is settled: volumes, then parameters and Pods in order, then superfluous Pods. */
export function change(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  const volumes = growVolumes(observed, rendered);
  if (volumes.kind !== "settled") return volumes;
  const pods = changePods(observed, rendered, views, status);
  if (pods.kind !== "settled") return pods;
  const superfluous = views.filter((view) => view.instance === undefined && view.pod !== undefined).reverse();
  const [last] = superfluous;
  if (last === undefined) return changeServices(observed, rendered);
  if (last.name === status.primary?.pod) return switchover(last, views, status, rendered);
  return restart(last, `removing ${last.name}; its volume is kept`, true);
}

/** Applies Services that differ from the rendered ones, after the Pods that they lead to. Settled if there are none. */
export function changeServices({ services }: GroupObservation, rendered: RenderedGroup): Next {
  const outdated = rendered.services.filter(({ metadata }) => {
    const current = services.find((each) => each.metadata.name === metadata.name);
    return current?.metadata.annotations?.[revisionAnnotation] !== metadata.annotations?.[revisionAnnotation];
  });
  if (outdated.length === 0) return { kind: "settled" };
  return {
    kind: "do",
    message: `changing ${outdated.map(({ metadata }) => metadata.name ?? "").join(", ")}`,
    effects: outdated.map((object) => ({ kind: "apply", type: Service, object })),
  };
}

/** Requests more capacity for the volumes, and waits until they have it. */
export function growVolumes({ claims }: GroupObservation, rendered: RenderedGroup): Next {
  for (const { claim } of rendered.instances) {
    const current = claims.find((each) => each.metadata.name === claim?.metadata.name);
    const wanted = claim?.spec?.resources?.requests?.storage;
    const requested = current?.spec?.resources?.requests?.storage;
    if (claim === undefined || current === undefined || wanted === undefined || requested === undefined) continue;
    const name = claim.metadata.name ?? "";
    if (compareQuantities(wanted, requested) > 0) {
      return {
        kind: "do",
        message: `resizing ${name} to ${wanted}`,
        effects: [{ kind: "apply", type: PersistentVolumeClaim, object: claim }],
      };
    }
    const capacity = current.status?.capacity?.storage;
    if (capacity === undefined || compareQuantities(capacity, wanted) < 0)
      return wait(`waiting for ${name} to reach ${wanted}; current capacity: ${capacity ?? "none"}`);
  }
  return { kind: "settled" };
}
