import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import type { Group, GroupStatus } from "../../api/group.ts";
import { hashOf } from "../../plugin/render-group.ts";
import { call, type Next, wait } from "../group/next.ts";
import type { PodView } from "../group/pod-view.ts";

/** Fewer Pods have no majority that survives a failure, so the controller alone decides about their primary. */
const minMembers = 3;

/**
 * Tells the agents which Pods decide by majority about the primary. Members are added and removed one at a time, so that two
 * majorities always have an agent in common; the next change begins when all agents have the last one. The primary is changed last:
 * until then the other agents never granted it a lease, so none of them stands for election. Agents tell each other when the
 * address of a Pod changes.
 */
export function reconcileMembers({ spec }: DeepReadonly<Group>, present: readonly PodView[], status: GroupStatus): Next {
  const { quorum = false, maxReplicationLag = 0, preferredPrimaries = [] } = spec.highAvailability ?? {};
  const maxLagBytes = Math.ceil(quantityToBytes(maxReplicationLag));
  const names = present.map((view) => view.name);
  const wanted = !quorum || names.length < minMembers ? [] : names;
  const { version = 0, pods = [] } = status.members ?? {};
  // Agents stand for election in this order.
  const members = byPreference(present, preferredPrimaries)
    .filter((view) => pods.includes(view.name))
    .flatMap(({ name, ip }) => (ip === undefined ? [] : [{ name, host: ip }]));
  const key = pods.length === 0 ? "" : `${version}-${hashOf({ pods, maxLagBytes, preferredPrimaries })}`;
  if (pods.length > 0 || version > 0) {
    const outdated = present.filter((view) => (view.role?.members ?? "") !== key);
    const next = outdated.find((view) => view.name !== status.primary?.pod) ?? outdated[0];
    if (next?.role !== undefined) {
      const order = { method: "SetMembers", key, members, maxLagBytes, token: `members/${key}` } as const;
      return call(next, order, `setting the members of the quorum on ${next.name}`);
    }
    if (next !== undefined) return wait(`waiting for the agent of ${next.name}`);
  }
  const changed = nextMembers(pods, wanted);
  if (jsonEquals(changed, pods)) return { kind: "settled" };
  return {
    kind: "record",
    message:
      changed.length === 0 ? "the controller alone decides about the primary" : `members of the quorum: ${changed.join(", ")}`,
    change: (next) => {
      next.members = { version: version + 1, pods: [...changed] };
    },
  };
}

/** The next members: all at first, then one more or less. */
function nextMembers(current: readonly string[], wanted: readonly string[]): readonly string[] {
  if (current.length === 0 || wanted.length === 0) return wanted;
  const added = wanted.find((name) => !current.includes(name));
  if (added !== undefined) return [...current, added];
  const removed = current.find((name) => !wanted.includes(name));
  return removed === undefined ? current : current.filter((name) => name !== removed);
}

/** Pods in order of preference, the others after them in their own order. */
export function byPreference(views: readonly PodView[], preferred: readonly number[]): readonly PodView[] {
  const rank = ({ name }: PodView): number => {
    const at = preferred.indexOf(Number(name.slice(name.lastIndexOf("-") + 1)));
    return at < 0 ? preferred.length : at;
  };
  return [...views].sort((a, b) => rank(a) - rank(b));
}
