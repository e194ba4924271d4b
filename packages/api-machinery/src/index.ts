/*
 * What a controller needs to handle Kubernetes objects: their types, metadata and conditions, the definition of custom kinds, and the
 * errors that the API server answers with. Specialised parts are subpath exports; see README.md.
 */
export * from "./objects/conditions.ts";
export * from "./objects/finalizers.ts";
export * from "./objects/json.ts";
export type {
  Condition,
  KubernetesObject,
  ManagedFieldsEntry,
  ObjectKey,
  ObjectMeta,
  OwnerReference,
  Stored,
} from "./objects/object.ts";
export {
  controllerReference,
  getController,
  isControlledBy,
  OwnerReferenceError,
  ownerReference,
  refersTo,
  removeOwnerReference,
  setControllerReference,
  setOwnerReference,
} from "./objects/owner-references.ts";
export {
  apiVersionOf,
  type DefinedResource,
  type ObjectOf,
  type ObjectType,
  parseApiVersion,
  type ResourceDefinition,
  type ResourceOptions,
  type ResourceType,
  type Scope,
} from "./objects/resource.ts";
export * from "./objects/resource-definition.ts";
export { versionedCrd } from "./objects/versioned-crd.ts";
export {
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isExpired,
  isMissingKind,
  isNamespaceTerminating,
  isNotFound,
  isStatusError,
  type Status,
  StatusError,
  type StatusReason,
  statusError,
} from "./protocol/status.ts";
