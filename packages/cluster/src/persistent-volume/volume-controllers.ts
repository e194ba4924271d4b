import { rm } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { PersistentVolume, PersistentVolumeClaim, Pod, StorageClass } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { claimNames } from "../scheduler/scheduler-decision.ts";
import { carryOut, performWrites } from "../workload/perform-writes.ts";
import { isPodTerminal, type SeenPod } from "../workload/pod-state.ts";
import { decideClaim } from "./claim-decision.ts";
import { decideVolume, volumeFailed } from "./volume-decision.ts";

const claimIndex = "claim";

/** Index of Pods by the claims that they use, as `namespace/name`. */
function byClaim(pod: DeepReadonly<KubernetesObject>): readonly string[] {
  return claimNames(pod as SeenPod).map((name) => `${pod.metadata.namespace}/${name}`);
}

/** What {@link createVolumeControllers} takes. */
export interface VolumeControllerOptions {
  /** Directory below which each claim gets one of its own, named by its uid. Nothing outside of it is ever removed. */
  readonly directory: string;
  /** Removes a directory and everything in it; one that is not there is no error. Default: of this machine. */
  readonly removeDirectory?: (path: string) => Promise<void>;
}

/** The controllers of claims and volumes, with directories of this machine as volumes. */
export function createVolumeControllers(options: VolumeControllerOptions): readonly ControllerDefinition[] {
  const root = resolve(options.directory);
  const { removeDirectory = (path) => rm(path, { recursive: true, force: true }) } = options;
  const claims = defineController({
    name: "persistentvolumeclaim",
    for: PersistentVolumeClaim,
    reads: [readOf(Pod, { [claimIndex]: byClaim })],
    watches: [
      watchOf(PersistentVolume, (volume, { cache }) => {
        const { namespace, name } = volume.spec?.claimRef ?? {};
        if (name !== undefined) return [{ namespace, name }];
        return unboundClaims(cache.list(PersistentVolumeClaim));
      }),
      watchOf(StorageClass, (_class, { cache }) => unboundClaims(cache.list(PersistentVolumeClaim))),
      // What a Pod used and is deleted may go with the Pod.
      watchOf(Pod, (pod) => claimNames(pod).map((name) => ({ namespace: pod.metadata.namespace, name })), [
        ({ type, object }) => type === "delete" || isPodTerminal(object),
      ]),
    ],
    async reconcile(request, context) {
      const { cache } = context;
      const claim = cache.get(PersistentVolumeClaim, request);
      if (claim === undefined) return undefined;
      const users = cache.list(Pod, { index: [claimIndex, `${request.namespace}/${request.name}`] });
      const decision = decideClaim({
        claim,
        volumes: cache.list(PersistentVolume),
        classes: cache.list(StorageClass),
        isUsed: users.some((pod) => !isPodTerminal(pod)),
        pathOf: (uid) => join(root, uid),
      });
      return await carryOut(decision, context);
    },
  });
  const volumes = defineController({
    name: "persistentvolume",
    for: PersistentVolume,
    watches: [
      watchOf(PersistentVolumeClaim, (claim, { cache }) =>
        cache
          .list(PersistentVolume)
          .filter(
            ({ metadata, spec }) => metadata.name === claim.spec?.volumeName || spec?.claimRef?.uid === claim.metadata.uid,
          )
          .map(({ metadata: { name } }) => ({ name })),
      ),
    ],
    async reconcile(request, context) {
      const { cache } = context;
      const volume = cache.get(PersistentVolume, request);
      if (volume === undefined) return;
      const { namespace, name = "" } = volume.spec?.claimRef ?? {};
      const claim = name === "" ? undefined : cache.get(PersistentVolumeClaim, { namespace, name });
      const { writes, removes } = decideVolume(volume, claim);
      if (removes !== undefined) {
        try {
          // A volume is written by people too; what lies elsewhere is not ours to remove.
          if (!resolve(removes).startsWith(root + sep))
            throw new Error(`${removes} is not below ${root}, and is left as it is`);
          await removeDirectory(removes);
        } catch (error) {
          await performWrites(volumeFailed(volume, error instanceof Error ? error.message : String(error)), context);
          throw error;
        }
      }
      await performWrites(writes, context);
    },
  });
  return [claims, volumes];
}

function unboundClaims(claims: readonly DeepReadonly<KubernetesObject & { spec?: { volumeName?: string } }>[]) {
  return claims.filter(({ spec }) => !spec?.volumeName).map(({ metadata: { namespace, name = "" } }) => ({ namespace, name }));
}
