import { controllerReference, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { ControllerRevision, type ControllerRevisionObject, type PodTemplate } from "@keelson/api-machinery/kinds";
import { hashOf } from "../workload/template-hash.ts";
import type { SeenPod } from "../workload/pod-state.ts";
import type { Seen, Write } from "../workload/write.ts";
import { revisionLabel, type SeenStatefulSet } from "./statefulset-pod.ts";

/** A ControllerRevision as it is read. */
export type SeenRevision = Seen<ControllerRevisionObject>;

/** Label of a ControllerRevision: the hash of its data. */
const hashLabel = "controller.kubernetes.io/hash";

/** The revisions that Pods are made of; `writes` where the newest has to be stored first. */
export interface Revisions {
  /** The one that all Pods had when the last rollout ended. */
  readonly current: SeenRevision | undefined;
  /** The one of the present template. */
  readonly update: SeenRevision | undefined;
  readonly writes: readonly Write[];
}

/** The data of the revision of the present template: a patch that puts that template in place. */
function dataOf(set: SeenStatefulSet): unknown {
  return { spec: { template: { ...set.spec.template, $patch: "replace" } } };
}

/** The template that a revision holds. */
export function templateOf(revision: SeenRevision): DeepReadonly<PodTemplate> {
  const { spec } = (revision.data ?? {}) as { readonly spec?: { readonly template?: DeepReadonly<PodTemplate> } };
  const { $patch: _directive, ...template } = (spec?.template ?? { spec: { containers: [] } }) as DeepReadonly<PodTemplate> & {
    readonly $patch?: string;
  };
  return template;
}

/** Finds the revisions of a StatefulSet among those that it owns, or what has to be written so that they are there. */
export function revisionsOf(set: SeenStatefulSet, owned: readonly SeenRevision[]): Revisions {
  const sorted = owned.toSorted((a, b) => a.revision - b.revision);
  const data = dataOf(set);
  const same = sorted.filter((one) => jsonEquals(one.data, data)).at(-1);
  const highest = sorted.at(-1)?.revision ?? 0;
  const current = sorted.find(({ metadata }) => metadata.name === set.status?.currentRevision);
  if (same === undefined) return { current, update: undefined, writes: [createRevision(set, data, highest + 1)] };
  // Rolled back to: the old template is the newest again.
  const isNewest = same.revision === highest;
  const writes: Write[] = isNewest
    ? []
    : [{ kind: "update", type: ControllerRevision, object: { ...same, revision: highest + 1 } as Seen }];
  return { current: current ?? same, update: same, writes };
}

function createRevision(set: SeenStatefulSet, data: unknown, revision: number): Write {
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

/** The revisions beyond the history limit that no Pod is made of, oldest first. */
export function decideHistory(
  set: SeenStatefulSet,
  owned: readonly SeenRevision[],
  { current, update }: Revisions,
  pods: readonly SeenPod[],
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
    .map((object) => ({ kind: "delete", type: ControllerRevision, object: object as Seen }));
}
