import type { DeepReadonly } from "./json.ts";
import type { KubernetesObject, OwnerReference } from "./object.ts";
import { parseApiVersion } from "./resource.ts";

type Owner = DeepReadonly<Pick<KubernetesObject, "apiVersion" | "kind" | "metadata">>;
type Owned = DeepReadonly<Pick<KubernetesObject, "metadata">> & { readonly kind?: string };

/** Why an owner reference cannot be set. */
export type OwnerReferenceErrorCode = "AlreadyOwned" | "CrossNamespace" | "ClusterScopedDependent" | "IncompleteOwner";

/** An owner reference cannot be set. Recognise it by `code`. */
export class OwnerReferenceError extends Error {
  readonly code: OwnerReferenceErrorCode;
  /** The controller that owns the object already, where `code` is `AlreadyOwned`. */
  readonly owner: OwnerReference | undefined;

  constructor(code: OwnerReferenceErrorCode, message: string, owner?: OwnerReference) {
    super(message);
    this.name = "OwnerReferenceError";
    this.code = code;
    this.owner = owner;
  }
}

/**
 * The reference to an owner: without `controller` and `blockOwnerDeletion`.
 *
 * **Errors**: throws an {@link OwnerReferenceError} `IncompleteOwner` where the owner has no kind, name or uid (yet).
 */
export function ownerReference(owner: Owner): OwnerReference {
  const { apiVersion, kind } = owner;
  const { name, uid } = owner.metadata;
  for (const [field, value] of Object.entries({ apiVersion, kind, "metadata.name": name, "metadata.uid": uid })) {
    if (!value) throw new OwnerReferenceError("IncompleteOwner", `the owner ${kind || "object"} ${name ?? ""} has no ${field}`);
  }
  return { apiVersion, kind, name: name ?? "", uid: uid ?? "" };
}

/** The reference to the controller of an object: deletion of the owner in the foreground waits for it. */
export function controllerReference(owner: Owner): OwnerReference {
  return { ...ownerReference(owner), controller: true, blockOwnerDeletion: true };
}

/** The reference to the controller that manages the object. */
export function getController(object: Owned): DeepReadonly<OwnerReference> | undefined {
  return object.metadata.ownerReferences?.find((reference) => reference.controller === true);
}

/** Whether the object is controlled by this owner. Owners are told apart by uid: one made anew under the same name is another. */
export function isControlledBy(object: Owned, owner: Owner): boolean {
  const uid = owner.metadata.uid;
  return uid !== undefined && getController(object)?.uid === uid;
}

/**
 * The object's owner references with `owner` as its controller.
 *
 * **Errors**: throws an {@link OwnerReferenceError}: `AlreadyOwned` where another object (by uid) is its controller,
 * `CrossNamespace` where the owner lives in another namespace, `ClusterScopedDependent` where a namespaced owner is to own
 * an object without a namespace.
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

/** The object's owner references with `owner` among them, not as its controller. Throws as {@link setControllerReference}. */
export function setOwnerReference(object: Owned, owner: Owner): OwnerReference[] {
  const reference = ownerReference(owner);
  checkScopes(object, owner);
  const before = object.metadata.ownerReferences?.find(({ uid }) => uid === reference.uid);
  return withReference(object, { ...before, ...reference });
}

/** The object's owner references without `owner`, by uid. */
export function removeOwnerReference(object: Owned, owner: Owner): OwnerReference[] {
  return (object.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== owner.metadata.uid).map((one) => ({ ...one }));
}

/** Whether a reference is to an object of this group and kind; the version does not matter. */
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
    const message = `the namespaced ${owner.kind} ${from}/${owner.metadata.name} cannot own a cluster-scoped object`;
    throw new OwnerReferenceError("ClusterScopedDependent", message);
  }
  if (from !== to) {
    const message = `the ${owner.kind} ${from}/${owner.metadata.name} cannot own an object in namespace ${to}: owners live in the same one`;
    throw new OwnerReferenceError("CrossNamespace", message);
  }
}

function withReference(object: Owned, reference: OwnerReference): OwnerReference[] {
  const references = (object.metadata.ownerReferences ?? []).map((one) => ({ ...one }));
  const index = references.findIndex(({ uid }) => uid === reference.uid);
  return index < 0 ? [...references, reference] : references.with(index, reference);
}
