import { controllerReference, type DeepReadonly, getController, type OwnerReference } from "@keelson/api-machinery";
import { PersistentVolumeClaim } from "@keelson/api-machinery/kinds";
import type { SeenPod } from "../workload/pod-state.ts";
import type { Claim } from "../workload/resources.ts";
import type { Write } from "../workload/write.ts";
import { claimName, claimsOf, deletesClaimsWithPod, deletesClaimsWithSet, type SeenStatefulSet } from "./statefulset-pod.ts";

/** The claims that a Pod of this ordinal needs and that are not there. One that is being deleted has to be gone first. */
export function missingClaims(set: SeenStatefulSet, ordinal: number, claims: readonly Claim[]): readonly Write[] {
  const present = new Set(claims.map(({ metadata }) => metadata.name));
  return claimsOf(set, ordinal)
    .filter(({ metadata }) => !present.has(metadata.name))
    .map((object) => ({ kind: "create", type: PersistentVolumeClaim, object, owner: set, mayExist: true }));
}

/**
 * Owner references of the claims of one ordinal by the retention policy (KEP-1847): the set's where they go with it, the
 * Pod's where the Pod is one too many and they go with that, and neither else.
 */
export function claimOwners(
  set: SeenStatefulSet,
  ordinal: number,
  claims: readonly Claim[],
  condemned: SeenPod | undefined,
): readonly Write[] {
  const names = new Set(
    (set.spec.volumeClaimTemplates ?? []).map(({ metadata }) => claimName(set, metadata?.name ?? "", ordinal)),
  );
  return claims
    .filter(({ metadata }) => names.has(metadata.name ?? "") && metadata.deletionTimestamp === undefined)
    .flatMap((object): readonly Write[] => {
      const references = object.metadata.ownerReferences ?? [];
      const controller = getController(object);
      // Claims that somebody else manages are not touched.
      if (controller !== undefined && controller.uid !== set.metadata.uid) return [];
      const podName = `${set.metadata.name}-${ordinal}`;
      const others = references.filter(
        (one) => one.uid !== set.metadata.uid && !(one.kind === "Pod" && one.apiVersion === "v1" && one.name === podName),
      );
      const goesWithPod = condemned !== undefined && deletesClaimsWithPod(set);
      const wanted: readonly DeepReadonly<OwnerReference>[] = goesWithPod
        ? [...others, { apiVersion: "v1", kind: "Pod", name: podName, uid: condemned.metadata.uid ?? "" }]
        : deletesClaimsWithSet(set)
          ? [...others, controllerReference(set)]
          : others;
      const isSame =
        wanted.length === references.length && wanted.every(({ uid }) => references.some((one) => one.uid === uid));
      return isSame
        ? []
        : [{ kind: "patch", type: PersistentVolumeClaim, object, body: { metadata: { ownerReferences: wanted } } }];
    });
}
