import { controllerReference, type DeepReadonly, getController, type OwnerReference } from "@keelson/api-machinery";
import { PersistentVolumeClaim } from "@keelson/api-machinery/kinds";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Claim } from "../workload/cached-objects.ts";
import type { Write } from "../workload/write.ts";
import { claimName, claimsOf, deletesClaimsWithPod, deletesClaimsWithSet, type CachedStatefulSet } from "./statefulset-pod.ts";

/** Creates the missing claims of an ordinal's Pod. A terminating claim must be deleted before it is recreated. */
export function missingClaims(set: CachedStatefulSet, ordinal: number, claims: readonly Claim[]): readonly Write[] {
  const present = new Set(claims.map(({ metadata }) => metadata.name));
  return claimsOf(set, ordinal)
    .filter(({ metadata }) => !present.has(metadata.name))
    .map((object) => ({ kind: "create", type: PersistentVolumeClaim, object, owner: set, mayExist: true }));
}

/**
 * Sets the owner references of an ordinal's claims by the retention policy (KEP-1847): the StatefulSet if claims are deleted with it,
 * the Pod if it is being scaled away and its claims with it, otherwise neither.
 */
export function claimOwners(
  set: CachedStatefulSet,
  ordinal: number,
  claims: readonly Claim[],
  condemned: CachedPod | undefined,
): readonly Write[] {
  const names = new Set(
    (set.spec.volumeClaimTemplates ?? []).map(({ metadata }) => claimName(set, metadata?.name ?? "", ordinal)),
  );
  return claims
    .filter(({ metadata }) => names.has(metadata.name ?? "") && metadata.deletionTimestamp === undefined)
    .flatMap((object): readonly Write[] => {
      const references = object.metadata.ownerReferences ?? [];
      const controller = getController(object);
      // Claims of another controller are left alone.
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
