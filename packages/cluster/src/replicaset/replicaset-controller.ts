import {
  type DeepReadonly,
  getController,
  isStatusError,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import { Pod, ReplicaSet, type ReplicaSetObject } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { FailedPodBackoff } from "../workload/failed-pod-backoff.ts";
import { byController, controllerIndex, orphansOf, workloadSelector } from "../workload/ownership.ts";
import { performWrites, resultOf } from "../workload/perform-writes.ts";
import type { CachedPod } from "../workload/pod-state.ts";
import { type Cached, type Decision, earlier, type Write } from "../workload/write.ts";
import { decideReplicaSetPods, decideReplicaSetStatus } from "./replicaset-decision.ts";

/** A kind that keeps a number of equal Pods, as a ReplicaSet does. */
export interface ReplicaKind<T extends KubernetesObject> {
  readonly name: string;
  readonly type: ResourceType<T>;
  /** The object as a ReplicaSet, with its own kind and metadata. */
  readonly asReplicaSet: (object: Cached<T>) => Cached<ReplicaSetObject>;
  /** The status of such a ReplicaSet as this kind has it. Default: the same. */
  readonly statusOf?: (status: Cached<ReplicaSetObject>["status"]) => unknown;
}

/** Creates the controller of a {@link ReplicaKind}. */
export function defineReplicaController<T extends KubernetesObject>(kind: ReplicaKind<T>): ControllerDefinition {
  const { name, type, asReplicaSet, statusOf = (status) => status } = kind;
  /** Redirects status writes of the ReplicaSet to the object itself. */
  const own = (object: Cached<T>, { writes, ...rest }: Decision): Decision => ({
    ...rest,
    writes: writes.map((write): Write => {
      if (write.kind !== "status") return write;
      const { status } = write.object as Cached<ReplicaSetObject>;
      return { kind: "status", type, object: { ...object, status: statusOf(status) } };
    }),
  });
  const backoff = new FailedPodBackoff();
  return defineController({
    name,
    for: type,
    owns: [Pod],
    reads: [readOf(Pod, { [controllerIndex]: byController })],
    watches: [
      // An orphan may be adopted by any object that selects it.
      watchOf(Pod, (pod, { cache }) => {
        const { namespace, labels, ownerReferences } = pod.metadata;
        if (ownerReferences?.some(({ controller }) => controller)) return [];
        return cache
          .list(type, { namespace })
          .filter((object) => workloadSelector(asReplicaSet(object as Cached<T>).spec.selector).matches(labels))
          .map(({ metadata }: DeepReadonly<KubernetesObject>) => ({ namespace, name: metadata.name ?? "" }));
      }),
    ],
    maxConcurrentReconciles: 5,
    async reconcile(request, context) {
      const { cache, clock, signal } = context;
      const object = cache.get(type, request) as Cached<T> | undefined;
      if (object === undefined) return undefined;
      const pods = [object.metadata.uid ?? "", orphansOf(request.namespace)].flatMap((value) =>
        cache.list(Pod, { index: [controllerIndex, value] }),
      );
      const observed = { replicaSet: asReplicaSet(object), pods };
      const { uid = "" } = object.metadata;
      const decided = decideReplicaSetPods(observed);
      const failed = decided[0]?.kind === "create" ? pods.filter((pod) => hasFailed(pod, uid)) : [];
      const heldMs = backoff.delay(uid, failed, clock.monotonic());
      const writes = heldMs > 0 ? [] : decided;
      try {
        await performWrites(writes, context);
      } catch (error) {
        if (!isStatusError(error) || error.status.reason === "Conflict" || signal.aborted) throw error;
        // The status says why there are too few or too many Pods; the error triggers the retry.
        const reason = writes[0]?.kind === "delete" ? "FailedDelete" : "FailedCreate";
        const failed = decideReplicaSetStatus(observed, clock.now(), { reason, message: error.message });
        await performWrites(own(object, failed).writes, context);
        throw error;
      }
      const decision = own(object, decideReplicaSetStatus(observed, clock.now()));
      await performWrites(decision.writes, context);
      const { requeueAfterMs } = decision;
      return resultOf({ ...decision, requeueAfterMs: heldMs > 0 ? earlier(requeueAfterMs, heldMs) : requeueAfterMs });
    },
  });
}

/** Whether a Pod of this owner has failed. */
function hasFailed(pod: CachedPod, owner: string): boolean {
  return pod.status?.phase === "Failed" && getController(pod)?.uid === owner;
}

/** Keeps the number of Pods that a ReplicaSet requests. */
export const createReplicaSetController = (): ControllerDefinition =>
  defineReplicaController({ name: "replicaset", type: ReplicaSet, asReplicaSet: (replicaSet) => replicaSet });
