import { type DeepReadonly, jsonEquals, type KubernetesObject, type ManagedFieldsEntry, setOwn } from "@keelson/api-machinery";
import { type Steps, trackUpdateInSteps } from "@keelson/api-machinery/server";
import { type StatusCause, unclassifiedError } from "@keelson/api-machinery/validation";
import type { AdmissionRequest, GroupVersionKind } from "../../admission/admission.ts";
import { collectInSteps } from "../../registry/causes.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { StoredObject } from "../../storage/store.ts";
import { readBody, requireNames } from "../object/body.ts";
import { CallAdmission, operationOptions } from "../admission-request.ts";
import { type Call, keyOf } from "../call.ts";
import { addWarnings, normalizeObject, validationCauses } from "../object/normalize.ts";
import { createFrom } from "./create.ts";
import { encodeUnstored, isStoredCurrently, serve } from "../object/serve-object.ts";
import { conflict, invalid, notFound } from "../errors.ts";
import { fieldContext } from "./field-context.ts";
import { deletionCauses, immutableCauses } from "./immutable-metadata.ts";
import { metadataProblems } from "../object/metadata.ts";
import type { EncodedObject, ObjectOutcome } from "../outcome.ts";
import { mutableCopy } from "./mutable-copy.ts";
import { pauseIfLarge, takeSteps } from "../pause.ts";
import { withOwnPart } from "./own-part.ts";
import { storedForm, storeObject } from "./store-object.ts";
import { allowsCreateOnUpdate, allowsUnconditionalUpdate } from "./update-rules.ts";
import { type WriteOptions, writeOptions } from "./write-options.ts";

/** Serves update (PUT) of an object or its status. */
export async function updateObject(call: Call): Promise<ObjectOutcome> {
  const { resource, request, info } = call;
  const options = writeOptions(request, "UpdateOptions");
  const read = async (): Promise<KubernetesObject> => {
    const object = await normalizeObject(call, readBody(resource, request.body), options);
    requireNames(object, info.name, call.namespace);
    return object;
  };
  if (info.subresource === "" && allowsCreateOnUpdate(resource) && call.store.get(keyOf(call)) === undefined) {
    const object = await read();
    const { uid = "" } = object.metadata;
    // A uid is a precondition: the update of a deleted object must not create it again.
    if (uid !== "") throw uidConflict(call, uid, "");
    return createFrom(call, { object, options, isTracked: false });
  }
  const object = await commitUpdate(call, {
    options,
    isUidChecked: true,
    produce: read,
    absent: read,
  });
  return { kind: "object", status: 200, object, resource, subresource: info.subresource };
}

/** How an update produces the next state of an object. */
export interface Update {
  readonly options: WriteOptions;
  /** Whether a uid in the next state is a precondition (PUT) or a change (PATCH). */
  readonly isUidChecked: boolean;
  /** Returns the next state of the live object, in the request's version: a normalized object that may be mutated. */
  readonly produce: (live: DeepReadonly<KubernetesObject>) => KubernetesObject | Promise<KubernetesObject>;
  /** Checks the request for a missing object: an invalid body is reported before `NotFound`. Default: nothing. */
  readonly absent?: () => Promise<unknown>;
  /** Whether `produce` also sets managedFields (apply). */
  readonly isTracked?: boolean;
  /** Default: the URL's. A write to `scale` changes the object itself. */
  readonly subresource?: string;
  /** How admission sees the write if it is not an update of the object itself (Scale, Binding). */
  readonly view?: UpdateView;
}

/** A write as admission sees it. */
export interface UpdateView {
  readonly operation: "CREATE" | "UPDATE";
  readonly kind: GroupVersionKind;
  /** The view of the object. */
  show(object: DeepReadonly<KubernetesObject>): KubernetesObject;
  /** Returns the object with a changed view. Default: the view cannot be changed. */
  merge?(object: KubernetesObject, view: KubernetesObject): KubernetesObject;
}

/** Attempts before checking whether the client has disconnected. */
const uncheckedAttempts = 5;

/**
 * Reads, changes, validates and writes an object, and starts over if it was written concurrently: a patch is applied to the newest object.
 * Only an explicit resourceVersion causes a conflict.
 */
export async function commitUpdate(call: Call, update: Update): Promise<EncodedObject> {
  const { resource, store, info } = call;
  const key = keyOf(call);
  for (let attempt = 1; ; attempt++) {
    if (attempt > uncheckedAttempts) call.request.signal?.throwIfAborted();
    const stored = store.get(key);
    if (stored === undefined) {
      await update.absent?.();
      throw notFound(resource, info.name);
    }
    call.load.bytes = Math.max(call.load.bytes, stored.bytes.length);
    const next = await prepare(call, update, stored);
    if (next === undefined) return serve(call, stored);
    if (update.options.isDryRun) return encodeUnstored(next);
    const isRemoved = canBeRemoved(resource, next);
    const result = await (isRemoved
      ? store.write(key, stored.revision, undefined)
      : storeObject(call, key, stored.revision, next));
    if (result.ok) return isRemoved ? encodeUnstored(atRevision(next, result.stored.revision)) : serve(call, result.stored);
  }
}

/** The next state after admission and validation; undefined if it equals the stored one. */
async function prepare(call: Call, update: Update, stored: StoredObject): Promise<KubernetesObject | undefined> {
  const { resource, info } = call;
  const { options } = update;
  const subresource = update.subresource ?? info.subresource;
  const { object: live } = await serve(call, stored);
  let next = await update.produce(live);
  requireUnmodified(call, update, next, live);
  const deletionFaults = subresource === "" ? deletionCauses(next, live) : [];
  restoreServerFields(next, live);
  const own = resource.subresources?.find(({ name }) => name === subresource);
  next = withOwnPart(resource, subresource, next, live);
  await pauseIfLarge(call);
  if (!update.isTracked) {
    const tracking = trackUpdateInSteps(live, next, fieldContext(call, options, info.subresource));
    next = await takeSteps(tracking, call.load.bytes);
    await pauseIfLarge(call);
  }
  const admission = admissionOf(call, update, subresource, next, live);
  const isMutated = await call.admission.mutate(admission);
  if (isMutated) {
    const admitted = admission.object ?? next;
    const changed = update.view === undefined ? admitted : (update.view.merge?.(next, admitted) ?? next);
    next = await normalizeObject(call, mutableCopy(changed, subresource === "status"), { fieldValidation: "Ignore" });
    restoreServerFields(next, live);
    next = withOwnPart(resource, subresource, next, live);
  } else if (update.view === undefined) next = admission.object ?? next;
  if (own !== undefined) own.prepareForUpdate?.(next, live);
  else if (subresource === "") resource.strategy.prepareForUpdate?.(next, live);
  else if (subresource === "status") resource.strategy.status?.prepareForUpdate?.(next, live);
  // A binding changes `spec.nodeName` without a new generation.
  const isSpecChanged =
    subresource !== "status" &&
    subresource !== "binding" &&
    (specChanged(resource, next, live) || resource.strategy.raisesGeneration?.(next, live) === true);
  const { generation } = live.metadata;
  if (isSpecChanged && resource.strategy.hasGeneration !== false) next.metadata.generation = (generation ?? 0) + 1;
  await pauseIfLarge(call);
  const metadataCauses = [...immutableCauses(next, live), ...deletionFaults, ...metadataProblems(resource, next.metadata)];
  await pauseIfLarge(call);
  const ownCauses = await takeSteps(validationCauses(call, next, live), call.load.bytes);
  await pauseIfLarge(call);
  const changes = await takeSteps(changeCauses(resource, subresource, next, live), call.load.bytes);
  const causes = [...metadataCauses, ...ownCauses, ...changes];
  if (causes.length > 0) throw invalid(resource, info.name, causes);
  admission.object = update.view?.show(next) ?? next;
  await call.admission.validate(admission);
  await call.admission.review(admission);
  if (subresource === "") addWarnings(call, next, live);
  await pauseIfLarge(call);
  await takeSteps(storedForm(call, next), call.load.bytes);
  return isSame(next, live) && !canBeRemoved(resource, next) && isStoredCurrently(call, stored) ? undefined : next;
}

/** Failures of a change. The stored object may be older than a default of its kind: what the default adds is not a change. */
function* changeCauses(
  resource: ServedResource,
  subresource: string,
  next: KubernetesObject,
  live: DeepReadonly<KubernetesObject>,
): Steps<readonly StatusCause[]> {
  const own = resource.subresources?.find(({ name }) => name === subresource);
  const validate = own?.validateUpdate ?? resource.strategy.validateUpdate;
  const causes = yield* collectInSteps(validate?.(next, live) ?? []);
  const { default: setDefaults } = resource.strategy;
  if (causes.length === 0 || subresource !== "" || setDefaults === undefined) return causes;
  const complete = mutableCopy(live, false);
  setDefaults(complete);
  return yield* collectInSteps(validate?.(next, complete) ?? []);
}

/** The admission request of an update, or of its view. */
function admissionOf(
  call: Call,
  { view, options }: Update,
  subresource: string,
  next: KubernetesObject,
  live: DeepReadonly<KubernetesObject>,
): AdmissionRequest {
  const operation = view?.operation ?? "UPDATE";
  const oldObject = view === undefined ? live : view.show(live);
  return new CallAdmission(call, {
    operation,
    subresource,
    ...(view === undefined ? {} : { kind: view.kind }),
    name: call.info.name,
    object: view?.show(next) ?? next,
    oldObject: operation === "CREATE" ? undefined : oldObject,
    isDryRun: options.isDryRun,
    options: operationOptions(call, operation === "CREATE" ? "CreateOptions" : "UpdateOptions"),
  });
}

function uidConflict({ resource, info }: Call, wanted: string, found: string): Error {
  return conflict(resource, info.name, `Precondition failed: UID in precondition: ${wanted}, UID in object meta: ${found}`);
}

function requireUnmodified(call: Call, update: Update, next: KubernetesObject, live: DeepReadonly<KubernetesObject>): void {
  const { resource, info } = call;
  const { resourceVersion: version = "", uid = "" } = next.metadata;
  if (update.isUidChecked && uid !== "" && uid !== live.metadata.uid) {
    throw uidConflict(call, uid, live.metadata.uid ?? "");
  }
  if (version === "" || version === "0") {
    if (update.isUidChecked && !allowsUnconditionalUpdate(resource)) {
      throw invalid({ group: resource.group, kind: resource.plural }, info.name, [
        {
          reason: "FieldValueInvalid",
          field: "metadata.resourceVersion",
          message: "Invalid value: 0: must be specified for an update",
        },
      ]);
    }
  } else if (!/^\d+$/.test(version)) {
    throw unclassifiedError(`strconv.ParseUint: parsing ${JSON.stringify(version)}: invalid syntax`);
  } else if (version !== live.metadata.resourceVersion) {
    throw conflict(resource, info.name);
  }
}

/** Metadata that a write cannot change. */
const immutableFields = [
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "generation",
  "resourceVersion",
] as const;
const serverOwnedFields: ReadonlySet<string> = new Set([...immutableFields, "selfLink"]);

/** Restores server-owned metadata. Builds a new object because V8 handles objects with deleted properties slowly. */
function restoreServerFields(next: KubernetesObject, live: DeepReadonly<KubernetesObject>): void {
  const { namespace, uid } = live.metadata;
  const metadata: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(next.metadata)) {
    if (!serverOwnedFields.has(name) && (name !== "namespace" || namespace !== undefined)) setOwn(metadata, name, value);
  }
  for (const name of immutableFields) if (live.metadata[name] !== undefined) metadata[name] = live.metadata[name];
  metadata["uid"] ??= uid;
  if (namespace !== undefined) metadata["namespace"] ??= namespace;
  next.metadata = metadata;
}

/** Whether anything but metadata and the status subresource differs. */
function specChanged(resource: ServedResource, next: KubernetesObject, live: DeepReadonly<KubernetesObject>): boolean {
  const specOf = (object: DeepReadonly<KubernetesObject>): Record<string, unknown> => {
    const { metadata: _, ...rest } = object;
    if (resource.hasStatus) Reflect.deleteProperty(rest, "status");
    return rest;
  };
  return !jsonEquals(specOf(next), specOf(live));
}

/** Whether the objects are equal except for the times in managedFields. */
function isSame(next: KubernetesObject, live: DeepReadonly<KubernetesObject>): boolean {
  const { metadata, ...rest } = next;
  const { metadata: liveMetadata, ...liveRest } = live;
  // Compares metadata last: most writes change more, and managedFields are large.
  if (!jsonEquals(rest, liveRest)) return false;
  const { managedFields, ...others } = metadata;
  const { managedFields: liveFields, ...liveOthers } = liveMetadata;
  return jsonEquals(others, liveOthers) && jsonEquals(managedFields?.map(withoutTime), liveFields?.map(withoutTime));
}

function withoutTime(entry: DeepReadonly<ManagedFieldsEntry>): unknown {
  const { time: _, ...rest } = entry;
  return rest;
}

/** Whether a terminating object has no finalizers and no grace period left. */
function canBeRemoved(resource: ServedResource, object: DeepReadonly<KubernetesObject>): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = object.metadata;
  if (deletionTimestamp === undefined || deletionGracePeriodSeconds > 0 || finalizers.length > 0) return false;
  return resource.strategy.isHeld?.(object) !== true;
}

/** A copy with the resourceVersion of its deletion. */
function atRevision(object: KubernetesObject, revision: number): KubernetesObject {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
}

/** A copy without resourceVersion: an object that would be deleted has none. */
export function withoutRevision(object: DeepReadonly<KubernetesObject>): KubernetesObject {
  const { resourceVersion: _, ...metadata } = object.metadata;
  return { ...object, metadata } as KubernetesObject;
}
