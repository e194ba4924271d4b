import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { PodTemplate, ReplicaSetObject } from "@keelson/api-machinery/kinds";
import type { ControllerDefinition } from "@keelson/controller";
import { defineReplicaController } from "../replicaset/replicaset-controller.ts";

/** v1 ReplicationController. */
export interface ReplicationControllerObject extends KubernetesObject {
  spec?: {
    replicas?: number;
    minReadySeconds?: number;
    selector?: Record<string, string>;
    template?: PodTemplate;
  };
  status?: ReplicaSetObject["status"];
}

/** v1 ReplicationControllers, the predecessors of ReplicaSets. */
export const ReplicationController: ResourceType<ReplicationControllerObject> = {
  group: "",
  version: "v1",
  kind: "ReplicationController",
  plural: "replicationcontrollers",
  scope: "Namespaced",
};

/** Keeps the number of Pods that a ReplicationController requests. */
export const createReplicationController = (): ControllerDefinition =>
  defineReplicaController({
    name: "replicationcontroller",
    type: ReplicationController,
    asReplicaSet(object) {
      const { selector = {}, ...spec } = object.spec ?? {};
      return { ...object, spec: { ...spec, selector: { matchLabels: selector } } };
    },
    statusOf(status) {
      const { terminatingReplicas: _unknown, ...rest } = status ?? {};
      return { ...rest, replicas: status?.replicas ?? 0 };
    },
  });
