import { PersistentVolumeClaim } from "@keelson/api-machinery/kinds";
import { compareQuantities } from "@keelson/api-machinery/quantity";
import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { changePods } from "./parameters.ts";
import { restart } from "./restart.ts";
import { switchover } from "./switchover.ts";
import type { View } from "./view.ts";

/** What an operation changes, once everything is well: volumes, then parameters and Pods in their order, then superfluous Pods. */
export function change(observed: GroupObservation, rendered: RenderedGroup, views: readonly View[], status: GroupStatus): Next {
  const volumes = growVolumes(observed, rendered);
  if (volumes.kind !== "settled") return volumes;
  const pods = changePods(observed, rendered, views, status);
  if (pods.kind !== "settled") return pods;
  const superfluous = views.filter((view) => view.instance === undefined && view.pod !== undefined).reverse();
  const [gone] = superfluous;
  if (gone === undefined) return { kind: "settled" };
  if (gone.name === status.primary?.pod) return switchover(gone, views, status, rendered);
  return restart(gone, `takes ${gone.name} away; its volume stays`, true);
}

function growVolumes({ claims }: GroupObservation, rendered: RenderedGroup): Next {
  for (const { claim } of rendered.instances) {
    const is = claims.find((each) => each.metadata.name === claim?.metadata.name);
    const wanted = claim?.spec?.resources?.requests?.storage;
    const asked = is?.spec?.resources?.requests?.storage;
    if (claim === undefined || is === undefined || wanted === undefined || asked === undefined) continue;
    const name = claim.metadata.name ?? "";
    if (compareQuantities(wanted, asked) > 0) {
      return {
        kind: "do",
        message: `grows ${name} to ${wanted}`,
        effects: [{ kind: "apply", type: PersistentVolumeClaim, object: claim }],
      };
    }
    const capacity = is.status?.capacity?.storage;
    if (capacity === undefined || compareQuantities(capacity, wanted) < 0)
      return wait(`waits for ${name} to have ${wanted}; it has ${capacity ?? "nothing yet"}`);
  }
  return { kind: "settled" };
}
