import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { NamespaceObject } from "@keelson/api-machinery/kinds";

/** What the conditions of a terminating Namespace report about an object. */
export interface RemainingObject {
  readonly type: { readonly group: string; readonly plural: string };
  readonly finalizers: readonly string[];
}

/** What may still be in a Namespace but cannot be read. */
export interface ContentFailures {
  /** Group versions (`group/version`) whose API server is not available. */
  readonly staleVersions: readonly string[];
  /** Served kinds that cannot be listed. */
  readonly unlistedKinds: readonly { readonly group: string; readonly plural: string }[];
}

type Condition = DeepReadonly<NonNullable<NonNullable<NamespaceObject["status"]>["conditions"]>[number]>;

/** The conditions while nothing fails and nothing is known to remain, in kube-controller-manager's order and words. */
const settled = [
  ["NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"],
  ["NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"],
  ["NamespaceDeletionContentFailure", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"],
  ["NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"],
  ["NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"],
] as const;

/**
 * The conditions of a Namespace whose deletion waits for these objects; undefined if it has them already. A condition keeps its transition
 * time while its status stays the same.
 */
export function terminatingConditions(
  current: readonly Condition[],
  remaining: readonly RemainingObject[],
  now: string,
  failures: ContentFailures = { staleVersions: [], unlistedKinds: [] },
): readonly Condition[] | undefined {
  const reported = new Map(reportedFailures(failures));
  if (remaining.length > 0) {
    const resources = counted(
      remaining.map(({ type }) => `${type.plural}.${type.group}`),
      "has",
    );
    reported.set("NamespaceContentRemaining", ["SomeResourcesRemain", `Some resources are remaining: ${resources}`]);
  }
  const finalizers = remaining.flatMap((object) => object.finalizers);
  if (finalizers.length > 0) {
    const message = `Some content in the namespace has finalizers remaining: ${counted(finalizers, "in")}`;
    reported.set("NamespaceFinalizersRemaining", ["SomeFinalizersRemain", message]);
  }
  const others = current.filter(({ type }) => !settled.some(([known]) => known === type));
  const next = settled.map(([type, okReason, okMessage]): Condition => {
    const [reason, message] = reported.get(type) ?? [okReason, okMessage];
    const status = reported.has(type) ? "True" : "False";
    const before = current.find((condition) => condition.type === type);
    const lastTransitionTime = before?.status === status ? before.lastTransitionTime : now;
    return { type, status, lastTransitionTime, reason, message };
  });
  const conditions = [...others, ...next];
  const isSame = conditions.every((condition) => current.some((before) => jsonEquals(before, condition)));
  return isSame ? undefined : conditions;
}

type Reported = readonly [type: string, text: readonly [reason: string, message: string]];

/** The conditions of failures, in the words of kube-controller-manager and of client-go's discovery. */
function reportedFailures({ staleVersions, unlistedKinds }: ContentFailures): readonly Reported[] {
  const reported: Reported[] = [];
  if (staleVersions.length > 0) {
    const errors = staleVersions.map((each) => `${each}: stale GroupVersion discovery: ${each}`).toSorted();
    const why = `unable to retrieve the complete list of server APIs: ${errors.join(", ")}`;
    const message = `Discovery failed for some groups, ${staleVersions.length} failing: ${why}`;
    reported.push(["NamespaceDeletionDiscoveryFailure", ["DiscoveryFailed", message]]);
  }
  if (unlistedKinds.length > 0) {
    const errors = unlistedKinds.map(({ group, plural }) => `${plural}.${group} cannot be listed`).toSorted();
    const message = `Failed to delete all resource types, ${unlistedKinds.length} remaining: ${errors.join(", ")}`;
    reported.push(["NamespaceDeletionContentFailure", ["ContentDeletionFailed", message]]);
  }
  return reported;
}

/** Such as `configmaps. has 2 resource instances, secrets. has 1 resource instances`. */
function counted(names: readonly string[], verb: "has" | "in"): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const texts = [...counts].map(([name, count]) => `${name} ${verb} ${count} resource instances`);
  return texts.toSorted().join(", ");
}
