import {
  type DeepReadonly,
  draft,
  ignoreNotFound,
  isMissingKind,
  isNotFound,
  isStatusError,
  type KubernetesObject,
  type ObjectMeta,
  ownerReference,
  type ResourceType,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { isBuiltInGroup, unknownKindMessage } from "../evaluation/unknown-kind.ts";
import { errorMessage } from "./running-tests.ts";
import type { ActionOutcome } from "../operations/action-outcome.ts";

/** Inputs of the actions that a test performs on objects. */
export interface ActionContext {
  readonly client: Client;
  readonly signal: AbortSignal;
  readonly fieldManager: string;
  /** The test, which owns the objects that it creates. */
  readonly owner: DeepReadonly<KubernetesObject>;
  /** Deletes only objects that the test owns. */
  readonly onlyOwn?: boolean;
  readonly mapKind: (apiVersion: string, kind: string) => ResourceType | undefined;
  /** Namespace of objects that do not name theirs. Default: that of the test. */
  readonly namespace?: string;
  /** ServiceAccount whose permissions the test has. Without it, the test changes objects in its own namespace only. */
  readonly serviceAccountName?: string | undefined;
  /** Identifies the attempt of a step. */
  readonly attempt?: string;
  /** Whether `client` is that of another cluster, where its credentials decide what the test may do. */
  readonly isRemote?: boolean;
}

/** Outcome of an action. `adopted`: the test does not own the object. */
export type ActionResult = ActionOutcome & { readonly adopted?: boolean };

/**
 * Applies an object with server-side apply, without forcing conflicts, and makes the test its owner. Idempotent. An object that
 * existed before the test is changed only with `adopt` and never gets an owner, so that deleting the test does not delete it.
 */
export async function applyResource(
  manifest: DeepReadonly<Record<string, unknown>>,
  adopt: boolean,
  context: ActionContext,
): Promise<ActionResult> {
  const { client, owner, signal } = context;
  const type = typeOf(manifest, context);
  if (type === undefined) return unknownKind(manifest);
  if (type.scope === "Cluster" && context.serviceAccountName === undefined && context.isRemote !== true) {
    const message = `${type.kind} is cluster-scoped; set spec.serviceAccountName to a ServiceAccount that may change it`;
    return { kind: "failed", reason: "Forbidden", message };
  }
  const key = keyOf(manifest, type, context);
  try {
    const present = await getIfPresent(client, type, key, signal);
    const isOwn = present === undefined || isOwnedBy(present, owner);
    const deletion = present === undefined ? undefined : pendingDeletion(present, owner);
    if (deletion !== undefined) return { kind: "unavailable", message: `${type.kind} ${key.name} ${deletion}` };
    if (!isOwn && !adopt) {
      const message = `${type.kind} ${key.name} already exists and was not created by this test; delete it, or set adopt: true`;
      return { kind: "failed", reason: "AlreadyExists", message };
    }
    const configuration = isOwn ? createdByTest(manifest, type, context) : contentOf(manifest, key);
    const applied = await client.apply(type, configuration, {
      fieldManager: isOwn ? context.fieldManager : adoptingManager(context),
      fieldValidation: "Strict",
      force: false,
      signal,
    });
    return { kind: "done", object: identityOf(applied, key.name), ...(isOwn ? {} : { adopted: true }) };
  } catch (error) {
    return outcomeOf(error, "ApplyFailed");
  }
}

interface Key {
  readonly namespace: string | undefined;
  readonly name: string;
}

function keyOf(manifest: DeepReadonly<Record<string, unknown>>, type: ResourceType, context: ActionContext): Key {
  const { name, namespace } = manifest["metadata"] as Readonly<Record<string, unknown>>;
  const home = context.namespace ?? context.owner.metadata.namespace;
  return {
    namespace: type.scope === "Cluster" ? undefined : typeof namespace === "string" ? namespace : home,
    name: String(name),
  };
}

/** The fields of a manifest that a test may set. */
function contentOf(manifest: DeepReadonly<Record<string, unknown>>, key: Key) {
  const {
    metadata,
    status: _,
    apiVersion: __,
    kind: ___,
    ...content
  } = draft(manifest) as Record<string, unknown> & {
    metadata: ObjectMeta;
  };
  const { labels, annotations, finalizers } = metadata;
  return {
    ...content,
    metadata: {
      ...(key.namespace === undefined ? { name: key.name } : { namespace: key.namespace, name: key.name }),
      ...(labels ? { labels } : {}),
      ...(annotations ? { annotations } : {}),
      ...(finalizers ? { finalizers } : {}),
    } as ObjectMeta & { readonly name: string },
  } as Record<string, unknown> & { metadata: ObjectMeta & { readonly name: string } };
}

/** An object with the test as its owner: by reference in the test's namespace, otherwise by annotation. */
export function createdByTest(manifest: DeepReadonly<Record<string, unknown>>, type: ResourceType, context: ActionContext) {
  const { owner, attempt } = context;
  const key = keyOf(manifest, type, context);
  const content = contentOf(manifest, key);
  const marks = { ...content.metadata.annotations, ...(attempt === undefined ? {} : { [attemptAnnotation]: attempt }) };
  const isNear = context.isRemote !== true && key.namespace === owner.metadata.namespace;
  const annotations = isNear ? marks : { ...marks, [ownerAnnotation]: owner.metadata.uid ?? "" };
  const metadata = {
    ...content.metadata,
    ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    // A foreground deletion of the test waits for the objects that it created.
    ...(isNear ? { ownerReferences: [{ ...ownerReference(owner), blockOwnerDeletion: true }] } : {}),
  };
  return { ...content, metadata };
}

/** Annotation of created objects: the attempt of the step that created them. */
export const attemptAnnotation = "testplane.io/attempt";

/** Annotation of objects outside the test's namespace: the UID of the test that created them. */
const ownerAnnotation = "testplane.io/test-uid";

/** Deletes an object. A missing object counts as deleted. */
export async function deleteResource(
  manifest: DeepReadonly<Record<string, unknown>>,
  context: ActionContext,
  propagationPolicy: "Background" | "Foreground" | "Orphan" = "Background",
): Promise<ActionOutcome> {
  const { client, owner, signal } = context;
  const type = typeOf(manifest, context);
  if (type === undefined) return unknownKind(manifest);
  const key = keyOf(manifest, type, context);
  const { name } = key;
  try {
    const present = await getIfPresent(client, type, key, signal);
    if (present === undefined || (context.onlyOwn && !isOwnedBy(present, owner))) return { kind: "done", object: { name } };
    const { uid } = present.metadata;
    await client.delete(type, key, {
      propagationPolicy,
      ...(uid === undefined ? {} : { preconditions: { uid } }),
      signal,
    });
    return { kind: "done", object: identityOf(present, name) };
  } catch (error) {
    return isNotFound(error) ? { kind: "done", object: { name } } : outcomeOf(error, "DeleteFailed");
  }
}

/** Reverts the changes of a test to an adopted object. */
export async function releaseResource(
  adopted: { readonly apiVersion: string; readonly kind: string; readonly name: string },
  context: ActionContext,
): Promise<void> {
  const type = context.mapKind(adopted.apiVersion, adopted.kind);
  const key = { namespace: context.owner.metadata.namespace, name: adopted.name };
  if (type === undefined || (await getIfPresent(context.client, type, key, context.signal)) === undefined) return;
  const { signal } = context;
  await context.client.apply(type, { metadata: key }, { fieldManager: adoptingManager(context), signal });
}

/** One field manager per test, so that reverting one test's changes keeps those of others. */
const adoptingManager = ({ fieldManager, owner }: ActionContext): string =>
  `${fieldManager}-${(owner.metadata.uid ?? "").slice(0, 13)}`;

const typeOf = (manifest: DeepReadonly<Record<string, unknown>>, { mapKind }: ActionContext): ResourceType | undefined =>
  mapKind(String(manifest["apiVersion"]), String(manifest["kind"]));

/** A kind may be defined after the test that uses it. */
export function unknownKind(manifest: { readonly apiVersion?: unknown; readonly kind?: unknown }): ActionOutcome {
  const unknown = { apiVersion: String(manifest.apiVersion), kind: String(manifest.kind) };
  const message = unknownKindMessage(unknown);
  return isBuiltInGroup(unknown) ? { kind: "failed", reason: "UnknownKind", message } : { kind: "unavailable", message };
}

/** Reads an object. Resolves to undefined if it does not exist. */
export async function getIfPresent(
  client: Client,
  type: ResourceType,
  key: { readonly namespace: string | undefined; readonly name: string },
  signal: AbortSignal,
): Promise<DeepReadonly<KubernetesObject> | undefined> {
  return ignoreNotFound(client.get(type, key, { signal }));
}

const isOwnedBy = ({ metadata }: DeepReadonly<KubernetesObject>, owner: DeepReadonly<KubernetesObject>): boolean =>
  metadata.annotations?.[ownerAnnotation] === owner.metadata.uid ||
  (metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) ?? false);

/** Why an object is about to be deleted, so that changing it is pointless. */
function pendingDeletion(object: DeepReadonly<KubernetesObject>, owner: DeepReadonly<KubernetesObject>): string | undefined {
  const { deletionTimestamp, finalizers = [], ownerReferences = [] } = object.metadata;
  if (deletionTimestamp !== undefined) {
    return `is being deleted${finalizers.length === 0 ? "" : `; waiting for finalizers ${finalizers.join(", ")}`}`;
  }
  const isOfEarlierRun = ownerReferences.some(
    ({ kind, name, uid }) => kind === owner.kind && name === owner.metadata.name && uid !== owner.metadata.uid,
  );
  return isOfEarlierRun ? "belongs to an earlier test of the same name and has not been garbage-collected yet" : undefined;
}

/** Identity of an object in the status of a step. */
export function identityOf(object: DeepReadonly<KubernetesObject>, name: string) {
  const { uid, resourceVersion } = object.metadata;
  return { name, ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
}

/** Client errors are permanent; everything else is retried. */
export function outcomeOf(error: unknown, reason: string): ActionOutcome {
  // Server-side apply reports an object that does not match its schema as an internal error, unlike any other bad request.
  const mismatch = isStatusError(error)
    ? /^failed to create typed patch object \(.*?\): (.*)$/s.exec(error.message)?.[1]
    : undefined;
  const rejection = isStatusError(error)
    ? { rejection: { code: error.code, reason: error.reason, message: error.message } }
    : {};
  if (mismatch !== undefined)
    return { kind: "failed", reason: "InvalidManifest", message: `manifest${mismatch}`, ...rejection };
  // A new kind is defined shortly before it is served.
  if (isMissingKind(error)) return { kind: "unavailable", message: errorMessage(error) };
  if (isStatusError(error) && error.code < 500 && error.code !== 429 && error.code !== 408) {
    return {
      kind: "failed",
      reason: error.reason === "Forbidden" ? "Forbidden" : reason,
      message: errorMessage(error),
      ...rejection,
    };
  }
  return { kind: "unavailable", message: errorMessage(error), isOutage: true };
}
