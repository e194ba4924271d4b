import {
  apiVersionOf,
  type DeepReadonly,
  type KubernetesObject,
  type OwnerReference,
  type ResourceType,
} from "@keelson/api-machinery";

/** The owner reference of a child to its controller. */
export function controllerReference(type: ResourceType, owner: DeepReadonly<KubernetesObject>): OwnerReference {
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    name: owner.metadata.name ?? "",
    uid: owner.metadata.uid ?? "",
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** Index values of a child: the uid of its controller. */
export function byController(object: DeepReadonly<KubernetesObject>): readonly string[] {
  const uid = object.metadata.ownerReferences?.find((reference) => reference.controller)?.uid;
  return uid === undefined ? [] : [uid];
}
