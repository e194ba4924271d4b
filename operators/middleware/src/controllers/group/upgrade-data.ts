import type { GroupStatus } from "../../api/group.ts";
import { hasPair } from "../../plugin/plugin.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { recordPrimary, withNewestData } from "../primary/roles.ts";
import { withStep } from "./group-operation.ts";
import { call, type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { isHeld, isOutdated, type PodView } from "./pod-view.ts";
import { restartAll } from "./restart.ts";

/**
 * An upgrade between versions whose programs do not replicate:
 *
 * ```text
 *   the primary checks its data --> all Pods are replaced --> the primary's data is upgraded --> replicas copy it
 *                                        \--> the upgrade fails: all Pods are replaced by the old version, whose data is intact
 * ```
 *
 * **Guarantees**: nothing stops before the check has succeeded. Only one Pod upgrades its data: the primary, or if that has none, the one with the
 * newest of all. The others keep theirs until they copy the upgraded data.
 */
export function upgradeData(
  { now }: Pick<GroupObservation, "now">,
  rendered: RenderedGroup,
  present: readonly PodView[],
  status: GroupStatus,
): Next {
  const due = present.filter((view) => view.role?.dataVersion !== undefined);
  if (due.length === 0) return { kind: "settled" };
  const isRunning = status.operation?.phase === "Running";
  const outdated = due.filter(isOutdated);
  if (isRunning && outdated.length > 0)
    return restartAll(outdated, `replacing ${namesOf(outdated)} by the version of their data`);
  const primary = present.find(({ name }) => name === status.primary?.pod);
  if (primary?.role === undefined) return { kind: "settled" };
  // A Pod was replaced before all were stopped: it cannot follow the old version.
  if (isRunning && primary.role.dataVersion === undefined && isOutdated(primary))
    return stopForUpgrade({ now }, rendered, present, status) ?? { kind: "settled" };
  if (primary.role.dataVersion === undefined && primary.role.role !== "unassigned") return { kind: "settled" };
  return primary.role.dataVersion === undefined ? replaceEmpty(present, due, status) : upgradePrimary(primary, isRunning);
}

function upgradePrimary(primary: PodView, isRunning: boolean): Next {
  const { name, role } = primary;
  const { upgrade, dataVersion = "", version = "" } = role ?? {};
  const subject = `upgrading the data of ${name} from ${dataVersion} to ${version}`;
  if (upgrade === "running") return wait(subject);
  if (upgrade === undefined) return call(primary, { method: "UpgradeData", token: `upgrade/${name}/${version}` }, subject);
  const message = `${subject} ${upgrade}`;
  return isRunning ? { kind: "fail", message, errorClass: "Config" } : wait(message);
}

/** The primary has lost its volume. */
function replaceEmpty(present: readonly PodView[], due: readonly PodView[], { primary }: GroupStatus): Next {
  const silent = present.find(({ role }) => role === undefined);
  if (silent !== undefined) return wait(`waiting for the agent of ${silent.name}, which may have the newest data`);
  const newest = withNewestData(due);
  if (newest === undefined) return { kind: "settled" };
  return recordPrimary(newest, (primary?.epoch ?? 0) + 1, `becomes the primary: ${primary?.pod ?? ""} has no data`);
}

/** Stops all Pods for a change between versions that do not replicate. Undefined for other changes. */
export function stopForUpgrade(
  { now }: Pick<GroupObservation, "now">,
  { stopFor }: RenderedGroup,
  present: readonly PodView[],
  status: GroupStatus,
): Next | undefined {
  const outdated = present.filter((view) => !isHeld(view) && isOutdated(view));
  const change = outdated.map(({ role, instance }) => [role?.version ?? "", instance?.version ?? ""] as const);
  const forward = change.find(([from, to]) => hasPair(stopFor, from, to));
  const crossing = forward ?? change.find(([from, to]) => hasPair(stopFor, to, from));
  if (crossing === undefined) return undefined;
  const [from, to] = crossing;
  if (forward !== undefined && status.operation?.checked !== true) return check(present, status, [from, to], now);
  return restartAll(outdated, `stopping ${namesOf(outdated)} for the change from ${from} to ${to}`);
}

function check(present: readonly PodView[], status: GroupStatus, [from, to]: readonly [string, string], now: number): Next {
  const primary = present.find(({ name }) => name === status.primary?.pod);
  const { operation } = status;
  if (primary?.ip === undefined || operation === undefined) return wait(`waiting for the primary ${status.primary?.pod ?? ""}`);
  const { name, ip } = primary;
  return {
    kind: "do",
    message: `checking whether the data of ${name} can be upgraded from ${from} to ${to}`,
    effects: [
      {
        kind: "call",
        ip,
        call: { method: "CheckUpgrade", version: to, token: `${operation.token}/${name}` },
        after(result) {
          const checked = withStep(operation, name, `its data can be upgraded to ${to}`, now);
          if (result.kind === "done") return { ...status, operation: { ...checked, checked: true } };
          if (result.kind !== "refused") return undefined;
          const message = `the data of ${name} cannot be upgraded to ${to}: ${result.message}`;
          return { ...status, operation: { ...operation, phase: "Failed", errorClass: "Config", message } };
        },
      },
    ],
  };
}

const namesOf = (views: readonly PodView[]): string => views.map(({ name }) => name).join(", ");
