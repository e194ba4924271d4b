import { controllerReference, type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { ControllerRevision, type ControllerRevisionObject, type PodTemplate } from "@keelson/api-machinery/kinds";
import type { CachedPod } from "./pod-state.ts";
import { hashOf, stableJson } from "./template-hash.ts";
import type { Cached, Write } from "./write.ts";

/** A ControllerRevision from the cache. */
export type CachedRevision = Cached<ControllerRevisionObject>;

/** A workload whose templates are stored as ControllerRevisions: a StatefulSet or a DaemonSet. */
export interface RevisionedObject extends KubernetesObject {
  spec: { template: PodTemplate; revisionHistoryLimit?: number };
  status?: { collisionCount?: number; currentRevision?: string };
}
type CachedWorkload = Cached<RevisionedObject>;

/** Label of a Pod of a StatefulSet (the name of its revision) or a DaemonSet (the hash of its revision). */
export const revisionLabel = "controller-revision-hash";
/** Label of a StatefulSet's ControllerRevision: the hash of its data. */
const hashLabel = "controller.kubernetes.io/hash";

/** The revisions of a workload; `writes` is not empty if the newest must be stored first. */
export interface Revisions {
  /** The revision of all Pods at the end of the last rollout. */
  readonly current: CachedRevision | undefined;
  /** The revision of the current template. */
  readonly update: CachedRevision | undefined;
  readonly writes: readonly Write[];
}

/**
 * The revision data of the current template: a patch that restores it. Its keys are sorted, as Go sorts those of maps: clients compare the
 * bytes with those of their own patch.
 */
function dataOf(set: CachedWorkload): unknown {
  return JSON.parse(stableJson({ spec: { template: { ...set.spec.template, $patch: "replace" } } }));
}

/** The template that a revision stores. */
export function templateOf(revision: CachedRevision): DeepReadonly<PodTemplate> {
  const { spec } = (revision.data ?? {}) as { readonly spec?: { readonly template?: DeepReadonly<PodTemplate> } };
  const { $patch: _directive, ...template } = (spec?.template ?? { spec: { containers: [] } }) as DeepReadonly<PodTemplate> & {
    readonly $patch?: string;
  };
  return template;
}

/** Finds the revisions of a workload, or the writes that store them. */
export function revisionsOf(set: CachedWorkload, owned: readonly CachedRevision[], label = hashLabel): Revisions {
  const byAge = owned.toSorted((a, b) => a.revision - b.revision);
  const data = dataOf(set);
  const same = byAge.filter((one) => jsonEquals(one.data, data)).at(-1);
  const highest = byAge.at(-1)?.revision ?? 0;
  const current = byAge.find(({ metadata }) => metadata.name === set.status?.currentRevision);
  if (same === undefined) return { current, update: undefined, writes: [createRevision(set, data, highest + 1, label)] };
  // After a rollback the old template becomes the newest revision.
  const isNewest = same.revision === highest;
  const writes: Write[] = isNewest
    ? []
    : [{ kind: "update", type: ControllerRevision, object: { ...same, revision: highest + 1 } as Cached }];
  return { current: current ?? same, update: same, writes };
}

function createRevision(set: CachedWorkload, data: unknown, revision: number, label: string): Write {
  const { name = "", namespace } = set.metadata;
  const hash = hashOf(data, set.status?.collisionCount);
  const object = {
    metadata: {
      name: `${name.slice(0, 253 - 1 - hash.length)}-${hash}`,
      ...(namespace === undefined ? {} : { namespace }),
      labels: { ...set.spec.template.metadata?.labels, [label]: hash },
      ownerReferences: [controllerReference(set)],
    },
    data,
    revision,
  };
  return { kind: "create", type: ControllerRevision, object };
}

/** Deletes revisions beyond the history limit that no Pod uses, oldest first. `isUsed` compares a revision with a Pod's label. */
export function decideHistory(
  set: CachedWorkload,
  owned: readonly CachedRevision[],
  { current, update }: Revisions,
  pods: readonly CachedPod[],
  labelOf: (revision: CachedRevision) => string | undefined = ({ metadata }) => metadata.name,
): readonly Write[] {
  const live = new Set(pods.map(({ metadata }) => metadata.labels?.[revisionLabel]));
  const history = owned
    .filter((revision) => revision !== current && revision !== update && !live.has(labelOf(revision)))
    .toSorted((a, b) => a.revision - b.revision);
  const limit = set.spec.revisionHistoryLimit ?? 10;
  return history
    .slice(0, Math.max(history.length - limit, 0))
    .map((object) => ({ kind: "delete", type: ControllerRevision, object: object as Cached }));
}
