import { controllerReference, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { ControllerRevision, type ControllerRevisionObject, type PodTemplate } from "@keelson/api-machinery/kinds";
import { hashOf } from "../workload/template-hash.ts";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Cached, Write } from "../workload/write.ts";
import { revisionLabel, type CachedStatefulSet } from "./statefulset-pod.ts";

/** A ControllerRevision from the cache. */
export type CachedRevision = Cached<ControllerRevisionObject>;

/** Label of a ControllerRevision: the hash of its data. */
const hashLabel = "controller.kubernetes.io/hash";

/** The revisions of a StatefulSet; `writes` is not empty if the newest must be stored first. */
export interface Revisions {
  /** The revision of all Pods at the end of the last rollout. */
  readonly current: CachedRevision | undefined;
  /** The revision of the current template. */
  readonly update: CachedRevision | undefined;
  readonly writes: readonly Write[];
}

/** The revision data of the current template: a patch that restores it. */
function dataOf(set: CachedStatefulSet): unknown {
  return { spec: { template: { ...set.spec.template, $patch: "replace" } } };
}

/** The template that a revision stores. */
export function templateOf(revision: CachedRevision): DeepReadonly<PodTemplate> {
  const { spec } = (revision.data ?? {}) as { readonly spec?: { readonly template?: DeepReadonly<PodTemplate> } };
  const { $patch: _directive, ...template } = (spec?.template ?? { spec: { containers: [] } }) as DeepReadonly<PodTemplate> & {
    readonly $patch?: string;
  };
  return template;
}

/** Finds the revisions of a StatefulSet, or the writes that store them. */
export function revisionsOf(set: CachedStatefulSet, owned: readonly CachedRevision[]): Revisions {
  const sorted = owned.toSorted((a, b) => a.revision - b.revision);
  const data = dataOf(set);
  const same = sorted.filter((one) => jsonEquals(one.data, data)).at(-1);
  const highest = sorted.at(-1)?.revision ?? 0;
  const current = sorted.find(({ metadata }) => metadata.name === set.status?.currentRevision);
  if (same === undefined) return { current, update: undefined, writes: [createRevision(set, data, highest + 1)] };
  // After a rollback the old template becomes the newest revision.
  const isNewest = same.revision === highest;
  const writes: Write[] = isNewest
    ? []
    : [{ kind: "update", type: ControllerRevision, object: { ...same, revision: highest + 1 } as Cached }];
  return { current: current ?? same, update: same, writes };
}

function createRevision(set: CachedStatefulSet, data: unknown, revision: number): Write {
  const { name = "", namespace } = set.metadata;
  const hash = hashOf(data, set.status?.collisionCount);
  const object = {
    metadata: {
      name: `${name.slice(0, 253 - 1 - hash.length)}-${hash}`,
      ...(namespace === undefined ? {} : { namespace }),
      labels: { ...set.spec.template.metadata?.labels, [hashLabel]: hash },
      ownerReferences: [controllerReference(set)],
    },
    data,
    revision,
  };
  return { kind: "create", type: ControllerRevision, object };
}

/** Deletes revisions beyond the history limit that no Pod uses, oldest first. */
export function decideHistory(
  set: CachedStatefulSet,
  owned: readonly CachedRevision[],
  { current, update }: Revisions,
  pods: readonly CachedPod[],
): readonly Write[] {
  const live = new Set([
    current?.metadata.name,
    update?.metadata.name,
    ...pods.map(({ metadata }) => metadata.labels?.[revisionLabel]),
  ]);
  const history = owned.filter(({ metadata }) => !live.has(metadata.name)).toSorted((a, b) => a.revision - b.revision);
  const limit = set.spec.revisionHistoryLimit ?? 10;
  return history
    .slice(0, Math.max(history.length - limit, 0))
    .map((object) => ({ kind: "delete", type: ControllerRevision, object: object as Cached }));
}
