import { type KubernetesObject, type ObjectMeta, setOwn } from "@keelson/api-machinery";
import { runSteps, type Steps, trackUpdateInSteps } from "@keelson/api-machinery/server";
import { type StatusCause, unclassifiedError } from "@keelson/api-machinery/validation";
import { readBody } from "../object/body.ts";
import { CallAdmission, operationOptions } from "../admission-request.ts";
import { type Call, keyOf } from "../call.ts";
import { addWarnings, normalizeObject, validationCauses } from "../object/normalize.ts";
import { encodeUnstored, serve } from "../object/serve-object.ts";
import { alreadyExists, badRequest, forbidden, invalid, methodNotAllowed } from "../errors.ts";
import { evaluateObject } from "./evaluate.ts";
import { fieldContext } from "./field-context.ts";
import { metadataProblems, nameCauses } from "../object/metadata.ts";
import type { ObjectOutcome } from "../outcome.ts";
import { collectInSteps } from "../../registry/causes.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { isLarge, pauseIfLarge, takeSteps } from "../pause.ts";
import { generateName } from "../random-source.ts";
import { storeObject } from "./store-object.ts";
import { type WriteOptions, writeOptions } from "./write-options.ts";

/** Metadata that the server sets; a create ignores the client's values. */
const serverFields: ReadonlySet<string> = new Set([
  "uid",
  "resourceVersion",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "selfLink",
  "generation",
]);

/** Attempts to generate a name that is not taken. */
const maxNameAttempts = 8;

/** Serves create. */
export async function createObject(call: Call): Promise<ObjectOutcome> {
  const { resource, request } = call;
  if (resource.scope === "Namespaced" && call.namespace === "") throw methodNotAllowed(resource);
  const { evaluate } = resource.strategy;
  if (evaluate !== undefined) return evaluateObject(call, { resource, evaluate });
  const options = writeOptions(request, "CreateOptions");
  let object = readBody(resource, request.body);
  const { load } = call;
  if (isLarge(load.bytes)) await pauseIfLarge(call);
  const normalizing = normalizeObject(call, object, options);
  object = normalizing instanceof Promise ? await normalizing : normalizing;
  const { metadata } = object;
  // A namespace on a cluster-scoped object is dropped.
  if (resource.scope === "Namespaced" && metadata.namespace !== undefined && metadata.namespace !== call.namespace) {
    throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  }
  return await createFrom(call, { object, options, isTracked: false });
}

/** A normalized object to create. */
export interface Creation {
  readonly object: KubernetesObject;
  readonly options: WriteOptions;
  /** Whether its managedFields are already set (apply). */
  readonly isTracked: boolean;
}

/** Creates an object: name, admission, strategy, validation, storage. */
export async function createFrom(call: Call, creation: Creation): Promise<ObjectOutcome> {
  const { generateName: prefix, name } = creation.object.metadata;
  const attempts = !name && prefix ? maxNameAttempts : 1;
  for (let attempt = 1; ; attempt++) {
    const isLast = attempt === attempts;
    // Admission and strategies may change the object, so each attempt except the last works on a copy.
    const own = isLast ? creation : { ...creation, object: structuredClone(creation.object) };
    const outcome = await attemptCreate(call, own);
    if (outcome !== undefined) return outcome;
    if (!isLast) continue;
    const taken = own.object.metadata.name ?? "";
    const existing = call.store.get(keyOf(call, taken));
    throw alreadyExists(call.resource, taken, existing?.object.metadata.deletionTimestamp !== undefined);
  }
}

async function attemptCreate(call: Call, { object, options, isTracked }: Creation): Promise<ObjectOutcome | undefined> {
  const { resource, store, load } = call;
  const sent = object.metadata;
  // kube-apiserver checks this when it stores the object.
  if (/^0*[1-9]\d*$/.test(sent.resourceVersion ?? "") && !isTracked && !options.isDryRun) {
    throw unclassifiedError("resourceVersion should not be set on objects to be created");
  }
  object.metadata = clientMetadata(call, sent);
  if (resetsStatus(call)) Reflect.deleteProperty(object, "status");
  if (isLarge(load.bytes)) await pauseIfLarge(call);
  const time = call.timestamps.now();
  let next = object;
  if (!isTracked) {
    const tracking = trackUpdateInSteps(undefined, object, fieldContext(call, options, "", time));
    next = isLarge(load.bytes) ? await takeSteps(tracking, load.bytes) : runSteps(tracking);
    if (isLarge(load.bytes)) await pauseIfLarge(call);
  }
  const admission = admissionOf(call, next, options);
  const mutating = call.admission.mutate(admission);
  const isMutated = mutating instanceof Promise ? await mutating : mutating;
  next = admission.object ?? next;
  if (isMutated) {
    next = await normalizeObject(call, next, { fieldValidation: "Ignore" });
    if (resetsStatus(call)) Reflect.deleteProperty(next, "status");
  }
  // As in kube-apiserver, mutating steps do not see what the server sets.
  next.metadata = systemMetadata(call, next.metadata, mutating instanceof Promise ? call.timestamps.now() : time);
  admission.name = next.metadata.name ?? "";
  admission.object = next;
  resource.strategy.prepareForCreate?.(next, call.request.user);
  if (resource.strategy.hasGeneration !== false) next.metadata.generation = 1;
  // Admission precedes validation: a missing or terminating namespace is the first error a client needs to see.
  const validating = call.admission.validate(admission);
  if (validating instanceof Promise) await validating;
  if (isLarge(load.bytes)) await pauseIfLarge(call);
  // kube-apiserver validates the client's generation unless it sets one.
  const { generation } = resource.strategy.hasGeneration === false ? sent : next.metadata;
  const shown = generation === undefined ? next.metadata : { ...next.metadata, generation };
  const metadataCauses = [...nameCauses(resource, next), ...metadataProblems(resource, shown)];
  if (isLarge(load.bytes)) await pauseIfLarge(call);
  const validation = takeSteps(createCauses(call, next), load.bytes);
  const causes = [...metadataCauses, ...(validation instanceof Promise ? await validation : validation)];
  if (causes.length > 0) throw invalid(resource, next.metadata.name ?? "", causes);
  const reviewing = call.admission.review(admission);
  if (reviewing instanceof Promise) await reviewing;
  addWarnings(call, next);
  requireStorable(call, next);
  const key = keyOf(call, next.metadata.name);
  if (options.isDryRun) {
    if (store.get(key) !== undefined) return undefined;
    return { kind: "object", status: 201, object: encodeUnstored(next), resource, subresource: "" };
  }
  const result = await storeObject(call, key, 0, next);
  if (!result.ok) return undefined;
  const serving = serve(call, result.stored);
  const served = serving instanceof Promise ? await serving : serving;
  return { kind: "object", status: 201, object: served, resource, subresource: "" };
}

function* createCauses(call: Call, object: KubernetesObject): Steps<readonly StatusCause[]> {
  const causes = yield* validationCauses(call, object, undefined);
  const own = yield* collectInSteps(call.resource.strategy.validateCreate?.(object) ?? []);
  return [...causes, ...own];
}

function admissionOf(call: Call, object: KubernetesObject, { isDryRun }: WriteOptions): CallAdmission {
  return new CallAdmission(call, {
    operation: "CREATE",
    subresource: "",
    name: object.metadata.name ?? "",
    object,
    oldObject: undefined,
    isDryRun,
    options: operationOptions(call, "CreateOptions"),
  });
}

/** The client's metadata without what the server sets. */
function clientMetadata({ resource, namespace }: Call, sent: ObjectMeta): ObjectMeta {
  const metadata: ObjectMeta & Record<string, unknown> = {};
  copyClientFields(resource, sent, metadata);
  if (resource.scope === "Namespaced") metadata.namespace = namespace;
  return metadata;
}

/** Copies the fields that `to` does not have, except those that the server sets. */
function copyClientFields({ scope }: ServedResource, from: ObjectMeta, to: ObjectMeta & Record<string, unknown>): void {
  for (const field of Object.keys(from) as (keyof ObjectMeta)[]) {
    if (serverFields.has(field) || Object.hasOwn(to, field) || (field === "namespace" && scope === "Cluster")) continue;
    setOwn(to, field, from[field]);
  }
}

/** Adds name, uid and time. */
function systemMetadata({ resource, namespace, random }: Call, sent: ObjectMeta, time: string): ObjectMeta {
  const name = sent.name || (sent.generateName ? generateName(sent.generateName, random) : undefined);
  const metadata: ObjectMeta & Record<string, unknown> = {};
  if (name !== undefined) metadata.name = name;
  copyClientFields(resource, sent, metadata);
  if (resource.scope === "Namespaced") metadata.namespace = namespace;
  metadata.uid = random.uuid();
  metadata.creationTimestamp = time;
  return metadata;
}

/** Status is written through its subresource, except that a kubelet registers its Node with a status. */
function resetsStatus({ resource }: Call): boolean {
  return resource.hasStatus && !(resource.group === "" && resource.plural === "nodes");
}

function requireStorable({ resource }: Call, object: KubernetesObject): void {
  if (!resource.verbs.includes("get"))
    throw forbidden(resource, object.metadata.name ?? "", "objects of this kind are not stored");
}
