import { ConfigMap } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import { configHashAnnotation } from "../../api/names.ts";
import type { Operation } from "../../api/parts.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import type { CallResult } from "../effect.ts";
import { withStep } from "./group-operation.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { askForOrder } from "./pod-order.ts";
import { restart } from "./restart.ts";
import { switchover } from "./switchover.ts";
import { isOutdated, type View } from "./view.ts";

/** Brings parameters and templates into force, Pod by Pod: without a restart where the program can. */
export function changePods(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly View[],
  status: GroupStatus,
): Next {
  const { configHash, parameters } = rendered;
  const present = views.filter((view) => view.instance !== undefined);
  const isOther = (view: View): boolean => view.role?.configHash !== configHash;
  const outdated = present.filter((view) => isOutdated(view) || isOther(view));
  if (outdated.length > 0) {
    const { operation } = status;
    const primary = present.find((view) => view.name === status.primary?.pod);
    if (operation !== undefined && operation.order === undefined)
      return askForOrder(observed, present, primary, status, operation);
    const order = operation?.order ?? [];
    // Roles may have changed since the order was fixed: whoever is the primary now goes last.
    const rank = (view: View): number => (view === primary ? Number.MAX_SAFE_INTEGER : order.indexOf(view.name));
    const [view] = [...outdated].sort((a, b) => rank(a) - rank(b));
    if (view === undefined) return { kind: "settled" };
    if (isOutdated(view) || status.restartNeeded === configHash) {
      if (view === primary && present.length > 1) return switchover(view, views, status, rendered);
      return restart(view, `restarts ${view.name}`);
    }
    if (view.ip === undefined) return wait(`waits for the address of ${view.name}`);
    return {
      kind: "do",
      message: `sets parameters on ${view.name}`,
      effects: [
        {
          kind: "call",
          ip: view.ip,
          call: { method: "ReloadConfig", parameters, hash: configHash, token: `${operation?.token ?? ""}/${view.name}` },
          after: (result) => afterReload(status, result, view.name, configHash, observed.now),
        },
      ],
    };
  }
  // The files follow what the programs have taken.
  const stale = rendered.instances.filter(({ config }) => {
    const is = observed.configs.find((each) => each.metadata.name === config?.metadata.name);
    return config !== undefined && is?.metadata.annotations?.[configHashAnnotation] !== configHash;
  });
  if (stale.length === 0) return { kind: "settled" };
  return {
    kind: "do",
    message: "writes parameters into their files",
    effects: stale.flatMap(({ config }) =>
      config === undefined ? [] : [{ kind: "apply" as const, type: ConfigMap, object: config }],
    ),
  };
}

/** The answer of a program to new parameters, as the Group remembers it. */
function afterReload(status: GroupStatus, result: CallResult, pod: string, hash: string, now: number): object | undefined {
  const { operation } = status;
  if (operation === undefined) return undefined;
  const step = (action: string): Operation => withStep(operation, pod, action, now);
  switch (result.kind) {
    case "restart":
      return { ...status, restartNeeded: hash, operation: step(`needs a restart for ${result.parameters.join(", ")}`) };
    case "refused":
      return {
        ...status,
        operation: {
          ...operation,
          phase: "Failed",
          errorClass: "Config",
          message: `${pod} refuses the parameters: ${result.message}`,
        },
      };
    case "done":
      return { ...status, operation: step("took the parameters") };
    default:
      return undefined;
  }
}
