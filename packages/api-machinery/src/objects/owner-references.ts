import type { DeepReadonly } from "./json.ts";
import type { KubernetesObject, OwnerReference } from "./object.ts";
import { parseApiVersion } from "./resource.ts";

type Owner = DeepReadonly<Pick<KubernetesObject, "apiVersion" | "kind" | "metadata">>;
type Owned = DeepReadonly<Pick<KubernetesObject, "metadata">> & { readonly kind?: string };

/** The reason why an owner reference cannot be set. */
export type OwnerReferenceErrorCode = "AlreadyOwned" | "CrossNamespace" | "ClusterScopedDependent" | "IncompleteOwner";

/** An owner reference cannot be set; `code` says why. */
export class OwnerReferenceError extends Error {
  readonly code: OwnerReferenceErrorCode;
  /** The object's current controller, if `code` is `AlreadyOwned`. */
  readonly owner: OwnerReference | undefined;

  constructor(code: OwnerReferenceErrorCode, message: string, owner?: OwnerReference) {
    super(message);
    this.name = "OwnerReferenceError";
    this.code = code;
    this.owner = owner;
  }
}

/**
 * Creates a reference to an owner, without `controller` and `blockOwnerDeletion`.
 *
 * **Errors**: an {@link OwnerReferenceError} with code `IncompleteOwner` if the owner lacks a kind, name or uid.
 */
export function ownerReference(owner: Owner): OwnerReference {
  const { apiVersion, kind } = owner;
  const { name, uid } = owner.metadata;
  for (const [field, value] of Object.entries({ apiVersion, kind, "metadata.name": name, "metadata.uid": uid })) {
    if (!value) throw new OwnerReferenceError("IncompleteOwner", `owner ${kind || "object"} ${name ?? ""} has no ${field}`);
  }
  return { apiVersion, kind, name: name ?? "", uid: uid ?? "" };
}

/** Creates a controller reference; foreground deletion of the owner waits for the dependent. */
export function controllerReference(owner: Owner): OwnerReference {
  return { ...ownerReference(owner), controller: true, blockOwnerDeletion: true };
}

/** Returns the reference to the object's controller. */
export function getController(object: Owned): DeepReadonly<OwnerReference> | undefined {
  return object.metadata.ownerReferences?.find((reference) => reference.controller === true);
}

/**
 * Reports whether `owner` is the object's controller. Owners are compared by uid: an object recreated under the same name is
 * a different owner.
 */
export function isControlledBy(object: Owned, owner: Owner): boolean {
  const uid = owner.metadata.uid;
  return uid !== undefined && getController(object)?.uid === uid;
}

/**
 * Returns the object's owner references with `owner` as the controller.
 *
 * **Errors**: an {@link OwnerReferenceError}: `AlreadyOwned` if another object (by uid) is the controller, `CrossNamespace`
 * if the owner lives in another namespace, `ClusterScopedDependent` if the owner is namespaced and the object is not.
 */
export function setControllerReference(object: Owned, owner: Owner): OwnerReference[] {
  const reference = controllerReference(owner);
  checkScopes(object, owner);
  const current = getController(object);
  if (current && current.uid !== reference.uid) {
    const name = `${object.kind ?? "object"} ${object.metadata.name ?? object.metadata.generateName ?? ""}`;
    const message = `${name} is already owned by the ${current.kind} controller ${current.name} (uid ${current.uid})`;
    throw new OwnerReferenceError("AlreadyOwned", message, { ...current });
  }
  return withReference(object, reference);
}

/**
 * Returns the object's owner references with `owner` added as a non-controller. Throws as {@link setControllerReference}
 * does.
 */
export function setOwnerReference(object: Owned, owner: Owner): OwnerReference[] {
  const reference = ownerReference(owner);
  checkScopes(object, owner);
  const before = object.metadata.ownerReferences?.find(({ uid }) => uid === reference.uid);
  return withReference(object, { ...before, ...reference });
}

/** Returns the object's owner references without `owner`, matched by uid. */
export function removeOwnerReference(object: Owned, owner: Owner): OwnerReference[] {
  return (object.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== owner.metadata.uid).map((one) => ({ ...one }));
}

/** Reports whether a reference points to an object of this group and kind; the version does not matter. */
export function refersTo(
  reference: DeepReadonly<OwnerReference>,
  type: { readonly group: string; readonly kind: string },
): boolean {
  return reference.kind === type.kind && parseApiVersion(reference.apiVersion).group === type.group;
}

function checkScopes(object: Owned, owner: Owner): void {
  const from = owner.metadata.namespace;
  const to = object.metadata.namespace;
  if (!from) return;
  if (!to) {
    const message = `namespaced ${owner.kind} ${from}/${owner.metadata.name} cannot own a cluster-scoped object`;
    throw new OwnerReferenceError("ClusterScopedDependent", message);
  }
  if (from !== to) {
    const message = `${owner.kind} ${from}/${owner.metadata.name} cannot own an object in namespace ${to}: an owner must be in the same namespace`;
    throw new OwnerReferenceError("CrossNamespace", message);
  }
}

function withReference(object: Owned, reference: OwnerReference): OwnerReference[] {
  const references = (object.metadata.ownerReferences ?? []).map((one) => ({ ...one }));
  const index = references.findIndex(({ uid }) => uid === reference.uid);
  return index < 0 ? [...references, reference] : references.with(index, reference);
}
