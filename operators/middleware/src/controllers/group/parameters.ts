import { ConfigMap } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import { configHashAnnotation } from "../../api/names.ts";
import type { Operation } from "../../api/parts.ts";
import { hasVersion } from "../../plugin/plugin.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import type { CallResult } from "../effect.ts";
import { withStep } from "./group-operation.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { requestOrder } from "./pod-order.ts";
import { restart } from "./restart.ts";
import { stopForUpgrade } from "./upgrade-data.ts";
import { switchover } from "../primary/switchover.ts";
import { isHeld, isOutdated, type PodView } from "./pod-view.ts";

/** Applies parameters and templates Pod by Pod, without a restart where the program supports it. */
export function changePods(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  const present = views.filter((view) => view.instance !== undefined);
  const mismatch = versionMismatch(observed, present, status);
  if (mismatch !== undefined) return { kind: "fail", message: mismatch, errorClass: "Config" };
  const hasOtherParameters = (view: PodView): boolean => view.role?.configHash !== view.instance?.configHash;
  // The partition holds the others, including those that were changed before it was raised.
  const outdated = present.filter((view) => !isHeld(view) && (isOutdated(view) || hasOtherParameters(view)));
  if (outdated.length > 0) {
    const stopped = stopForUpgrade(observed, rendered, present, status);
    if (stopped !== undefined) return stopped;
    const { operation } = status;
    const primary = present.find((view) => view.name === status.primary?.pod);
    if (operation !== undefined && operation.order === undefined)
      return requestOrder(observed, present, primary, status, operation);
    const order = operation?.order ?? [];
    // Roles may have changed since the order was fixed: the current primary comes last.
    const rank = (view: PodView): number => (view === primary ? Number.MAX_SAFE_INTEGER : order.indexOf(view.name));
    const [view] = [...outdated].sort((a, b) => rank(a) - rank(b));
    if (view?.instance === undefined) return { kind: "settled" };
    const { parameters, configHash } = view.instance;
    if (isOutdated(view) || status.restartNeeded === configHash) {
      if (view === primary && present.length > 1) return switchover(view, views, status, rendered);
      return restart(view, `restarting ${view.name}`);
    }
    if (view.ip === undefined) return wait(`waiting for the address of ${view.name}`);
    return {
      kind: "do",
      message: `setting parameters on ${view.name}`,
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
  // The files are updated after the programs accepted the parameters.
  const stale = rendered.instances.filter(({ config, configHash, isHeld: isKept }) => {
    if (isKept) return false;
    const current = observed.configs.find((each) => each.metadata.name === config?.metadata.name);
    return config !== undefined && current?.metadata.annotations?.[configHashAnnotation] !== configHash;
  });
  if (stale.length === 0) return { kind: "settled" };
  return {
    kind: "do",
    message: "writing the parameters to their files",
    effects: stale.flatMap(({ config }) =>
      config === undefined ? [] : [{ kind: "apply" as const, type: ConfigMap, object: config }],
    ),
  };
}

/** Why an upgrade did not happen: a restarted program reports another version than the one requested. */
function versionMismatch(
  { group }: GroupObservation,
  present: readonly PodView[],
  { operation }: GroupStatus,
): string | undefined {
  if (operation?.scenario !== "upgrade") return undefined;
  const { name } = group.spec.runtime;
  const wrong = present.find(
    (view) =>
      !isOutdated(view) && view.role?.version !== undefined && !hasVersion([view.instance?.version ?? ""], view.role.version),
  );
  return wrong === undefined
    ? undefined
    : `${wrong.name}: requested ${name} ${wrong.instance?.version ?? ""}, but the program reports version ${wrong.role?.version ?? ""}`;
}

/** The status after a program responded to new parameters. */
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
          message: `${pod} rejected the parameters: ${result.message}`,
        },
      };
    case "done":
      return { ...status, operation: step("accepted the parameters") };
    default:
      return undefined;
  }
}
