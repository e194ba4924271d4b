import type { GroupStatus } from "../../api/group.ts";
import type { Operation } from "../../api/parts.ts";
import { isPermutation } from "../component/component-decision.ts";
import type { Next } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import type { PodView } from "./pod-view.ts";

/** Fixes the order in which an operation changes Pods, as reported by the primary. */
export function requestOrder(
  { group }: GroupObservation,
  present: readonly PodView[],
  primary: PodView | undefined,
  status: GroupStatus,
  operation: Operation,
): Next {
  const names = present.map((view) => view.name);
  const primaryLast = [...names].reverse().sort((a, b) => Number(a === primary?.name) - Number(b === primary?.name));
  const fix = (order: readonly string[]): object => ({ ...status, operation: { ...operation, order: [...order] } });
  if (primary?.ip === undefined || names.length < 2) {
    return {
      kind: "record",
      message: "fixing the order of the Pods",
      change: (next) => {
        if (next.operation) next.operation.order = primaryLast;
      },
    };
  }
  const roles = Object.fromEntries(present.map((view) => [view.name, view === primary ? "primary" : "replica"]));
  return {
    kind: "do",
    message: "requesting the order of the Pods",
    effects: [
      {
        kind: "call",
        ip: primary.ip,
        call: { method: "GetPodOrder", group: group.metadata.name ?? "", scenario: operation.scenario, pods: names, roles },
        // Without a valid response: one by one, the primary last.
        after: (result) => fix(result.kind === "order" && isPermutation(result.order, names) ? result.order : primaryLast),
      },
    ],
  };
}
