import { join, resolve, sep } from "node:path";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { PersistentVolume, PersistentVolumeClaim, Pod, StorageClass } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { removeTree } from "@keelson/execution/files";
import { claimNames } from "../scheduler/scheduler-decision.ts";
import { applyDecision, performWrites } from "../workload/perform-writes.ts";
import { isPodTerminal, type CachedPod } from "../workload/pod-state.ts";
import { decideClaim } from "./claim-decision.ts";
import { decideVolume, volumeFailed } from "./volume-decision.ts";
import { ClusterError } from "../cluster-error.ts";

const claimIndex = "claim";

/** Indexes Pods by the claims that they use, as `namespace/name`. */
function byClaim(pod: DeepReadonly<KubernetesObject>): readonly string[] {
  return claimNames(pod as CachedPod).map((name) => `${pod.metadata.namespace}/${name}`);
}

/** Options of {@link createVolumeControllers}. */
export interface VolumeControllerOptions {
  /** Directory for volumes, one subdirectory per claim uid. Nothing outside it is ever removed. */
  readonly directory: string;
  /** Removes a directory recursively; a missing one is not an error. Default: on this machine's file system. */
  readonly removeDirectory?: (path: string) => Promise<void>;
}

/** The controllers of claims and volumes. Volumes are directories of this machine. */
export function createVolumeControllers(options: VolumeControllerOptions): readonly ControllerDefinition[] {
  const root = resolve(options.directory);
  const { removeDirectory = removeTree } = options;
  return [claimController(root), volumeController(root, removeDirectory)];
}

function claimController(root: string): ControllerDefinition {
  return defineController({
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
      // A deleted claim can be released once its Pods have terminated.
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
      return await applyDecision(decision, context);
    },
  });
}

function volumeController(root: string, removeDirectory: (path: string) => Promise<void>): ControllerDefinition {
  return defineController({
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
          // Users can write PersistentVolumes too: a path outside the directory must not be removed.
          if (!resolve(removes).startsWith(root + sep)) {
            throw new ClusterError("OutsideDirectory", `refusing to remove ${removes}: it is not below ${root}`);
          }
          await removeDirectory(removes);
        } catch (error) {
          await performWrites(volumeFailed(volume, error instanceof Error ? error.message : String(error)), context);
          throw error;
        }
      }
      await performWrites(writes, context);
    },
  });
}

function unboundClaims(claims: readonly DeepReadonly<KubernetesObject & { spec?: { volumeName?: string } }>[]) {
  return claims.filter(({ spec }) => !spec?.volumeName).map(({ metadata: { namespace, name = "" } }) => ({ namespace, name }));
}
