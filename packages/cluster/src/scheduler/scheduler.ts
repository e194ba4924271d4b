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
import { type Change, type ControllerDefinition, defineController, type ReconcileContext, watchOf } from "@keelson/controller";
import { controllerOf } from "../workload/event-words.ts";
import { performWrites } from "../workload/perform-writes.ts";
import { isPodTerminal, type SeenPod } from "../workload/pod-state.ts";
import { announce, type Write } from "../workload/write.ts";
import { isToldOf, isWaiting, type Placement, schedule, selectedNodeAnnotation } from "./scheduler-decision.ts";

/** All waiting Pods are one piece of work: which goes first is decided over all of them. */
const everything = [{ name: "pending-pods" }];

/** Chooses nodes for Pods. */
export function createScheduler(): ControllerDefinition {
  const assumed = new Map<string, string>();
  return defineController({
    name: "scheduler",
    for: Pod,
    // No Pod is a piece of work by itself.
    predicates: [() => false],
    watches: [
      watchOf(Pod, () => everything, [mattersForScheduling]),
      watchOf(Node, () => everything, [mattersForFitting]),
      watchOf(PersistentVolumeClaim, () => everything),
      watchOf(PersistentVolume, () => everything),
      watchOf(StorageClass, () => everything),
    ],
    async reconcile(_request, context) {
      const { cache } = context;
      const pods = cache.list(Pod);
      if (!pods.some(isWaiting)) return;
      forgetShown(assumed, pods);
      const placements = schedule({
        nodes: cache.list(Node),
        pods,
        claims: cache.list(PersistentVolumeClaim),
        classes: cache.list(StorageClass),
        volumes: cache.list(PersistentVolume),
        assumed,
      });
      for (const placement of placements) await carryOutPlacement(placement, assumed, context);
    },
  });
}

async function carryOutPlacement(placement: Placement, assumed: Map<string, string>, context: ReconcileContext): Promise<void> {
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
    case "fail": {
      if (isToldOf(pod, placement.message)) return;
      const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== "PodScheduled");
      const before = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
      const lastTransitionTime = before?.status === "False" ? before.lastTransitionTime : formatTime(context.clock.now());
      const condition = {
        type: "PodScheduled",
        status: "False",
        reason: "Unschedulable",
        message: placement.message,
        lastProbeTime: null,
        lastTransitionTime,
      };
      const body = { status: { conditions: [...others, condition] } };
      await performWrites(
        [
          { kind: "patch", type: Pod, object: pod, body, subresource: "status" },
          announce(pod, "Warning", "FailedScheduling", placement.message),
        ],
        context,
      );
    }
  }
}

async function bind(
  pod: SeenPod,
  node: string,
  assumed: Map<string, string>,
  { client, events, signal }: ReconcileContext,
): Promise<void> {
  const { namespace = "", name = "", uid = "" } = pod.metadata;
  const binding = { metadata: { name, namespace, uid }, target: { apiVersion: "v1", kind: "Node", name: node } };
  // The answer is a Status, so the cache cannot be asked whether it shows this: what is bound is remembered here.
  assumed.set(uid, node);
  try {
    await client.create(bindingType, binding, { signal, subresource: { of: Pod, name: "binding" } });
  } catch (error) {
    assumed.delete(uid);
    // Gone, or bound by somebody else.
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

function forgetShown(assumed: Map<string, string>, pods: readonly SeenPod[]): void {
  if (assumed.size === 0) return;
  const waiting = new Set(pods.filter(isWaiting).map(({ metadata }) => metadata.uid));
  for (const uid of assumed.keys()) if (!waiting.has(uid)) assumed.delete(uid);
}

/** A Pod that waits, and one that gives back what it had. */
function mattersForScheduling({ type, object, old }: Change<PodObject>): boolean {
  if (isWaiting(object)) return old === undefined || !isWaiting(old) || !jsonEquals(old.spec, object.spec) || type === "delete";
  return type === "delete" || (isPodTerminal(object) && old !== undefined && !isPodTerminal(old));
}

/** Heartbeats alone change nothing. */
function mattersForFitting({ type, object, old }: Change<NodeObject>): boolean {
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
