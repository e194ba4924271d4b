import type { GroupStatus } from "../../api/group.ts";
import type { Operation } from "../../api/parts.ts";
import { isPermutation } from "../component-decision.ts";
import type { Next } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import type { View } from "./view.ts";

/** Fixes the order in which an operation changes Pods, as the primary says. */
export function askForOrder(
  { group }: GroupObservation,
  present: readonly View[],
  primary: View | undefined,
  status: GroupStatus,
  operation: Operation,
): Next {
  const names = present.map((view) => view.name);
  const careful = [...names].reverse().sort((a, b) => Number(a === primary?.name) - Number(b === primary?.name));
  const fix = (order: readonly string[]): object => ({ ...status, operation: { ...operation, order: [...order] } });
  if (primary?.ip === undefined || names.length < 2) {
    return {
      kind: "record",
      message: "fixes the order of its Pods",
      change: (next) => {
        if (next.operation) next.operation.order = careful;
      },
    };
  }
  const roles = Object.fromEntries(present.map((view) => [view.name, view === primary ? "primary" : "replica"]));
  return {
    kind: "do",
    message: "asks for the order of its Pods",
    effects: [
      {
        kind: "call",
        ip: primary.ip,
        call: { method: "GetPodOrder", group: group.metadata.name ?? "", scenario: operation.scenario, pods: names, roles },
        // No answer or a bad one: one by one, the primary last. Never all at once.
        after: (result) => fix(result.kind === "order" && isPermutation(result.order, names) ? result.order : careful),
      },
    ],
  };
}
