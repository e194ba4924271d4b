import { setImmediate as nextTurn } from "node:timers/promises";
import { isConflict, isNotFound, jsonEquals, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import {
  Node,
  type NodeObject,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  type PodObject,
  StorageClass,
} from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import {
  type Change,
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { controllerOf } from "../workload/part-event.ts";
import { performWrites } from "../workload/perform-writes.ts";
import { isPodTerminal, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import { eventWrite, type Write } from "../workload/write.ts";
import {
  isPending,
  isReported,
  type ObservedPods,
  type Placement,
  scheduleInSteps,
  selectedNodeAnnotation,
} from "./scheduler-decision.ts";
import { UnscheduledPods } from "./unscheduled-pods.ts";

/** All pending Pods are one work item, because their order is decided across all of them. */
const allPendingPods: readonly Request[] = [{ name: "pending-pods" }];

/** How soon the report of a Pod that changed in the meantime is repeated. */
const repeatReportMs = 100;

/**
 * Creates the scheduler, which binds pending Pods to nodes. Its memory of assumed Pods belongs to the returned controller.
 *
 * Pods that fit no node are reported as work items of their own, which do not delay the next round and whose namespaces take turns: a user
 * can create thousands of them.
 */
export function createScheduler(): ControllerDefinition {
  /** Node names by uid of Pods that were bound, until the cache shows it. */
  const assumed = new Map<string, string>();
  const unscheduled = new UnscheduledPods();
  return defineController({
    name: "scheduler",
    for: Pod,
    // Pods are scheduled together, never as work items of their own.
    predicates: [() => false],
    watches: [
      watchOf(Pod, () => allPendingPods, [affectsScheduling]),
      watchOf(Node, () => allPendingPods, [affectsNodeFit]),
      watchOf(PersistentVolumeClaim, () => allPendingPods),
      watchOf(PersistentVolume, () => allPendingPods),
      watchOf(StorageClass, () => allPendingPods),
    ],
    triggers: [unscheduled],
    priorityOf: ({ namespace }) => (namespace === undefined ? 1 : 0),
    maxConcurrentReconciles: 4,
    async reconcile(request, context) {
      if (request.namespace !== undefined) return report(request, unscheduled, context);
      const { cache } = context;
      const pods = cache.list(Pod);
      if (!pods.some(isPending)) {
        unscheduled.retain([]);
        return;
      }
      forgetObserved(assumed, pods);
      const placements = await takeTurns({
        nodes: cache.list(Node),
        pods,
        claims: cache.list(PersistentVolumeClaim),
        classes: cache.list(StorageClass),
        volumes: cache.list(PersistentVolume),
        assumed,
      });
      const failed = placements.filter((placement) => placement.kind === "fail");
      unscheduled.retain(failed);
      for (const placement of placements) {
        if (placement.kind !== "fail") await applyPlacement(placement, assumed, context);
        else if (!isReported(placement.pod, placement.message)) unscheduled.add(placement);
      }
    },
  });
}

/** Schedules in several turns of the event loop. */
async function takeTurns(observed: ObservedPods): Promise<readonly Placement[]> {
  const steps = scheduleInSteps(observed);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await nextTurn();
  }
}

/** Records why a Pod has no node in its condition `PodScheduled` and as an event. */
async function report(request: Request, unscheduled: UnscheduledPods, context: ReconcileContext): Promise<Result | undefined> {
  const failure = unscheduled.get(request);
  if (failure === undefined) return undefined;
  const { uid, message } = failure;
  const pod = context.cache.get(Pod, request);
  if (pod !== undefined && pod.metadata.uid === uid && isPending(pod) && !isReported(pod, message)) {
    const outcome = await performWrites(unschedulable({ pod, message }, context), context);
    if (outcome === "stale") return { requeueAfterMs: repeatReportMs };
  }
  unscheduled.remove(request, failure);
  return undefined;
}

async function applyPlacement(
  placement: Exclude<Placement, { kind: "fail" }>,
  assumed: Map<string, string>,
  context: ReconcileContext,
): Promise<void> {
  const { pod } = placement;
  switch (placement.kind) {
    case "bind":
      await bind(pod, placement.node, assumed, context);
      return;
    case "select-node": {
      const metadata = { annotations: { [selectedNodeAnnotation]: placement.node } };
      const body = { metadata };
      await performWrites(
        placement.claims.map((object): Write => ({ kind: "patch", type: PersistentVolumeClaim, object, body })),
        context,
      );
      return;
    }
    case "preempt":
      await preempt(placement, assumed, context);
  }
}

type PreemptPlacement = Extract<Placement, { kind: "preempt" }>;

/** Deletes the victims, one after the other, while the Pod still needs their room. A change that ends this triggers another round. */
async function preempt(
  placement: PreemptPlacement,
  assumed: ReadonlyMap<string, string>,
  context: ReconcileContext,
): Promise<void> {
  const isNeeded = (): boolean => {
    const { namespace, name = "", uid = "" } = placement.pod.metadata;
    const pod = context.cache.get(Pod, { namespace, name });
    if (pod === undefined || pod.metadata.uid !== uid || !isPending(pod) || assumed.has(uid)) return false;
    const node = context.cache.get(Node, { name: placement.node });
    return node !== undefined && node.metadata.deletionTimestamp === undefined;
  };
  for (const victim of placement.victims.filter((pod) => !isPodTerminating(pod))) {
    if (!isNeeded()) return;
    if ((await performWrites(evictionWrites(victim, placement), context)) === "stale") return;
  }
  if (isNeeded()) await performWrites(unschedulable(placement, context, placement.node), context);
}

/** Deletes a victim and records why. */
function evictionWrites(victim: CachedPod, { pod, node }: PreemptPlacement): readonly Write[] {
  const message = "default-scheduler: preempting to accommodate a higher priority pod";
  const condition = { type: "DisruptionTarget", status: "True", reason: "PreemptionByScheduler", message };
  const others = (victim.status?.conditions ?? []).filter(({ type }) => type !== condition.type);
  const body = { status: { conditions: [...others, condition] } };
  return [
    { kind: "patch", type: Pod, object: victim, body, subresource: "status", force: true },
    eventWrite(victim, "Normal", "Preempted", `Preempted by pod ${pod.metadata.uid} on node ${node}`),
    { kind: "delete", type: Pod, object: victim },
  ];
}

/** Reports that a Pod has no node yet. */
function unschedulable(
  { pod, message }: { readonly pod: CachedPod; readonly message: string },
  { clock }: ReconcileContext,
  nominatedNodeName?: string,
): readonly Write[] {
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== "PodScheduled");
  const before = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const lastTransitionTime = before?.status === "False" ? before.lastTransitionTime : formatTime(clock.now());
  const condition = {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message,
    lastProbeTime: null,
    lastTransitionTime,
  };
  const nomination = nominatedNodeName === undefined ? {} : { nominatedNodeName };
  const body = { status: { conditions: [...others, condition], ...nomination } };
  return [
    { kind: "patch", type: Pod, object: pod, body, subresource: "status" },
    eventWrite(pod, "Warning", "FailedScheduling", message),
  ];
}

async function bind(
  pod: CachedPod,
  node: string,
  assumed: Map<string, string>,
  { client, events, signal }: ReconcileContext,
): Promise<void> {
  const { namespace = "", name = "", uid = "" } = pod.metadata;
  const binding = { metadata: { name, namespace, uid }, target: { apiVersion: "v1", kind: "Node", name: node } };
  // The response is a Status without a resourceVersion, so the cache cannot be awaited: the binding is remembered here.
  assumed.set(uid, node);
  try {
    await client.create(bindingType, binding, { signal, subresource: { of: Pod, name: "binding" } });
  } catch (error) {
    assumed.delete(uid);
    // Deleted, or bound by another writer.
    if (isNotFound(error) || isConflict(error)) return;
    throw error;
  }
  const note = `Successfully assigned ${namespace}/${name} to ${node}`;
  events.event(pod, { type: "Normal", reason: "Scheduled", action: "Binding", note, controller: controllerOf("Pod") });
}

const bindingType: ResourceType<KubernetesObject & { target: object }> = {
  group: "",
  version: "v1",
  kind: "Binding",
  plural: "bindings",
  scope: "Namespaced",
};

function forgetObserved(assumed: Map<string, string>, pods: readonly CachedPod[]): void {
  if (assumed.size === 0) return;
  const pending = new Set(pods.filter(isPending).map(({ metadata }) => metadata.uid));
  for (const uid of assumed.keys()) if (!pending.has(uid)) assumed.delete(uid);
}

/** Changes of pending Pods, and of Pods that free resources. */
function affectsScheduling({ type, object, old }: Change<PodObject>): boolean {
  if (isPending(object)) return old === undefined || !isPending(old) || !jsonEquals(old.spec, object.spec) || type === "delete";
  return type === "delete" || (isPodTerminal(object) && old !== undefined && !isPodTerminal(old));
}

/** Heartbeats change nothing that matters for fitting. */
function affectsNodeFit({ type, object, old }: Change<NodeObject>): boolean {
  if (type !== "update" || old === undefined) return true;
  const conditionsOf = ({ status }: Change<NodeObject>["object"]) =>
    (status?.conditions ?? []).map((condition) => `${condition.type}=${condition.status}`);
  return (
    !jsonEquals(old.spec, object.spec) ||
    !jsonEquals(old.metadata.labels, object.metadata.labels) ||
    !jsonEquals(old.status?.allocatable, object.status?.allocatable) ||
    !jsonEquals(conditionsOf(old), conditionsOf(object))
  );
}
