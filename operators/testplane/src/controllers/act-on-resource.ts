import {
  type DeepReadonly,
  draft,
  isMissingKind,
  isNotFound,
  isStatusError,
  type KubernetesObject,
  type ObjectMeta,
  ownerReference,
  type ResourceType,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { reasonOf } from "./running-tests.ts";
import type { ActOutcome } from "./integration/step-decision.ts";

/** What a test acts with. */
export interface ActContext {
  readonly client: Client;
  readonly signal: AbortSignal;
  readonly fieldManager: string;
  /** The test: owner of what it makes. */
  readonly owner: DeepReadonly<KubernetesObject>;
  /** Deletes only what the test made. */
  readonly onlyOwn?: boolean;
  readonly mapKind: (apiVersion: string, kind: string) => ResourceType | undefined;
}

/** What came of it; `adopted`: the object is not the test's own. */
export type ActResult = ActOutcome & { readonly adopted?: boolean };

/**
 * Applies an object by server-side apply, without taking anybody's fields, with the test as its owner. Doing it twice is doing it
 * once. An object that was there before is changed only with `adopt`, and never gets an owner: deleting the test must not delete it.
 */
export async function applyResource(
  manifest: DeepReadonly<Record<string, unknown>>,
  adopt: boolean,
  context: ActContext,
): Promise<ActResult> {
  const { client, owner, signal } = context;
  const type = typeOf(manifest, context);
  if (type === undefined) return unknownKind(manifest);
  if (type.scope === "Cluster") {
    return { kind: "failed", reason: "ApplyFailed", message: `${type.kind} is cluster-scoped: a test cannot own it` };
  }
  const { metadata, ...rest } = draft(manifest) as Record<string, unknown> & { metadata: ObjectMeta };
  const { name, labels, annotations, finalizers } = metadata;
  const key = { namespace: owner.metadata.namespace, name: String(name) };
  try {
    const present = await presentObject(client, type, key, signal);
    const isOwn = present === undefined || isOwnedBy(present, owner);
    const going = present === undefined ? undefined : goingWith(present, owner);
    if (going !== undefined) return { kind: "unavailable", message: `${type.kind} ${key.name} ${going}` };
    if (!isOwn && !adopt) {
      const message = `${type.kind} ${key.name} is there already and was not made by this test; delete it, or set adopt: true`;
      return { kind: "failed", reason: "AlreadyExists", message };
    }
    const { status: _, apiVersion: __, kind: ___, ...content } = rest;
    const configuration = {
      ...content,
      metadata: {
        ...key,
        ...(labels ? { labels } : {}),
        ...(annotations ? { annotations } : {}),
        ...(finalizers ? { finalizers } : {}),
        // Blocking, so that a test that is deleted in the foreground is gone only after what it made.
        ...(isOwn ? { ownerReferences: [{ ...ownerReference(owner), blockOwnerDeletion: true }] } : {}),
      },
    };
    const applied = await client.apply(type, configuration, {
      fieldManager: isOwn ? context.fieldManager : adoptingManager(context),
      force: false,
      signal,
    });
    return { kind: "done", object: identityOf(applied, key.name), ...(isOwn ? {} : { adopted: true }) };
  } catch (error) {
    return outcomeOf(error, "ApplyFailed");
  }
}

/** Deletes an object; one that is not there is deleted. */
export async function deleteResource(
  manifest: DeepReadonly<Record<string, unknown>>,
  context: ActContext,
): Promise<ActOutcome> {
  const { client, owner, signal } = context;
  const type = typeOf(manifest, context);
  if (type === undefined) return unknownKind(manifest);
  const name = String((manifest["metadata"] as Readonly<Record<string, unknown>>)["name"]);
  const key = { namespace: type.scope === "Cluster" ? undefined : owner.metadata.namespace, name };
  try {
    const present = await presentObject(client, type, key, signal);
    if (present === undefined || (context.onlyOwn && !isOwnedBy(present, owner))) return { kind: "done", object: { name } };
    const { uid } = present.metadata;
    await client.delete(type, key, {
      propagationPolicy: "Background",
      ...(uid === undefined ? {} : { preconditions: { uid } }),
      signal,
    });
    return { kind: "done", object: identityOf(present, name) };
  } catch (error) {
    return isNotFound(error) ? { kind: "done", object: { name } } : outcomeOf(error, "DeleteFailed");
  }
}

/** Takes back what a test added to an object that is not its own. */
export async function releaseResource(
  adopted: { readonly apiVersion: string; readonly kind: string; readonly name: string },
  context: ActContext,
): Promise<void> {
  const type = context.mapKind(adopted.apiVersion, adopted.kind);
  const key = { namespace: context.owner.metadata.namespace, name: adopted.name };
  if (type === undefined || (await presentObject(context.client, type, key, context.signal)) === undefined) return;
  await context.client.apply(
    type,
    { metadata: key },
    {
      fieldManager: adoptingManager(context),
      signal: context.signal,
    },
  );
}

/** One a test, so that what one takes back leaves the others' changes. */
const adoptingManager = ({ fieldManager, owner }: ActContext): string =>
  `${fieldManager}-${(owner.metadata.uid ?? "").slice(0, 13)}`;

const typeOf = (manifest: DeepReadonly<Record<string, unknown>>, { mapKind }: ActContext): ResourceType | undefined =>
  mapKind(String(manifest["apiVersion"]), String(manifest["kind"]));

/** A kind may be defined a moment after the test that uses it: the step's own time decides. */
const unknownKind = (manifest: DeepReadonly<Record<string, unknown>>): ActOutcome => ({
  kind: "unavailable",
  message: `no kind ${String(manifest["kind"])} of ${String(manifest["apiVersion"])} is served`,
});

async function presentObject(
  client: Client,
  type: ResourceType,
  key: { readonly namespace: string | undefined; readonly name: string },
  signal: AbortSignal,
): Promise<DeepReadonly<KubernetesObject> | undefined> {
  try {
    return await client.get(type, key, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

const isOwnedBy = (object: DeepReadonly<KubernetesObject>, owner: DeepReadonly<KubernetesObject>): boolean =>
  object.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) ?? false;

/** Why an object is about to go by itself, so that it is no use to change it: the watch tells when it is gone. */
function goingWith(object: DeepReadonly<KubernetesObject>, owner: DeepReadonly<KubernetesObject>): string | undefined {
  const { deletionTimestamp, finalizers = [], ownerReferences = [] } = object.metadata;
  if (deletionTimestamp !== undefined) {
    return `is being deleted${finalizers.length === 0 ? "" : `; it waits for its finalizers ${finalizers.join(", ")}`}`;
  }
  const isOfEarlierRun = ownerReferences.some(
    ({ kind, name, uid }) => kind === owner.kind && name === owner.metadata.name && uid !== owner.metadata.uid,
  );
  return isOfEarlierRun ? "is of an earlier test of this name and not collected yet" : undefined;
}

function identityOf(object: DeepReadonly<KubernetesObject>, name: string) {
  const { uid, resourceVersion } = object.metadata;
  return { name, ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
}

/** What the server refuses it refuses again; where it could not be asked, asking again helps. */
function outcomeOf(error: unknown, reason: string): ActOutcome {
  // A kind is defined a moment before it is served.
  if (isMissingKind(error)) return { kind: "unavailable", message: reasonOf(error) };
  if (isStatusError(error) && error.code < 500 && error.code !== 429 && error.code !== 408) {
    return { kind: "failed", reason: error.reason === "Forbidden" ? "Forbidden" : reason, message: reasonOf(error) };
  }
  return { kind: "unavailable", message: reasonOf(error) };
}
