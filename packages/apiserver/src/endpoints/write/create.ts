import { type KubernetesObject, type ObjectMeta, setOwn } from "@keelson/api-machinery";
import { trackUpdate } from "@keelson/api-machinery/server";
import { unclassifiedError } from "@keelson/api-machinery/validation";
import type { AdmissionRequest } from "../../admission/admission.ts";
import { readBody } from "../object/body.ts";
import { type Call, keyOf, timestamp } from "../call.ts";
import { conform, validationCauses } from "../object/normalize.ts";
import { encodePlain, serve } from "../object/serve-object.ts";
import { alreadyExists, badRequest, forbidden, invalid, methodNotAllowed } from "../errors.ts";
import { fieldContext, toStorageVersion } from "./field-context.ts";
import { metadataProblems, nameCauses } from "../object/metadata.ts";
import type { ObjectOutcome } from "../outcome.ts";
import { generateName } from "../random-source.ts";
import { type WriteOptions, writeOptions } from "./write-options.ts";

/** Metadata of which a create takes nothing from its client. */
const serverFields: ReadonlySet<string> = new Set([
  "uid",
  "resourceVersion",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "selfLink",
  "generation",
]);

/** How often a generated name that is taken is drawn again. */
const nameAttempts = 8;

/** Answers a create. */
export async function createObject(call: Call): Promise<ObjectOutcome> {
  const { resource, request, info } = call;
  const options = writeOptions(request, "CreateOptions");
  let object = readBody(resource, request.body);
  if (resource.scope === "Namespaced" && call.namespace === "") throw methodNotAllowed(resource);
  if (resource.strategy.evaluate !== undefined) {
    const evaluated = await resource.strategy.evaluate(object, {
      user: request.user,
      namespace: call.namespace,
      name: info.name,
    });
    return { kind: "object", status: 201, object: encodePlain(evaluated), resource, subresource: "" };
  }
  object = conform(call, object, options);
  const { metadata } = object;
  // Where the kind has no namespaces, one that is given is dropped.
  if (resource.scope === "Namespaced" && metadata.namespace !== undefined && metadata.namespace !== call.namespace) {
    throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  }
  return createFrom(call, { object, options, isTracked: false });
}

/** What is to be created, conformed to its schema. */
export interface Creation {
  readonly object: KubernetesObject;
  readonly options: WriteOptions;
  /** Whether its managedFields are made already (apply). */
  readonly isTracked: boolean;
}

/** Creates the object: names, admission, strategy, validation, storage. */
export async function createFrom(call: Call, creation: Creation): Promise<ObjectOutcome> {
  const { generateName: prefix, name } = creation.object.metadata;
  const attempts = !name && prefix ? nameAttempts : 1;
  for (let attempt = 1; ; attempt++) {
    const isLast = attempt === attempts;
    // Admission and strategies may change the object: each attempt has its own, the last one the original.
    const object = isLast ? creation.object : structuredClone(creation.object);
    const outcome = await attemptCreate(call, { ...creation, object });
    if (outcome !== undefined) return outcome;
    if (!isLast) continue;
    const taken = object.metadata.name ?? "";
    const existing = call.store.get(keyOf(call, taken));
    throw alreadyExists(call.resource, taken, existing?.object.metadata.deletionTimestamp !== undefined);
  }
}

async function attemptCreate(call: Call, { object, options, isTracked }: Creation): Promise<ObjectOutcome | undefined> {
  const { resource, store, random, clock } = call;
  const given = object.metadata;
  if (given.resourceVersion !== undefined && !isTracked) {
    throw unclassifiedError("resourceVersion should not be set on objects to be created");
  }
  const name = given.name ?? (given.generateName ? generateName(given.generateName, random) : undefined);
  const metadata: ObjectMeta & Record<string, unknown> = name === undefined ? {} : { name };
  for (const field of Object.keys(given) as (keyof ObjectMeta)[]) {
    if (!serverFields.has(field)) setOwn(metadata, field, given[field]);
  }
  if (resource.scope === "Namespaced") metadata.namespace = call.namespace;
  else delete metadata.namespace;
  metadata.uid = random.uuid();
  metadata.creationTimestamp = timestamp(clock);
  object.metadata = metadata;
  if (resetsStatus(call)) Reflect.deleteProperty(object, "status");
  let next = isTracked ? object : trackUpdate(undefined, object, fieldContext(call, options, ""));
  const admission: AdmissionRequest = {
    operation: "CREATE",
    resource,
    subresource: "",
    namespace: call.namespace,
    name: next.metadata.name ?? "",
    object: next,
    oldObject: undefined,
    user: call.request.user,
    isDryRun: options.isDryRun,
    warn: (text) => call.warnings.push(text),
  };
  const isMutated = await call.admission.mutate(admission);
  next = admission.object ?? next;
  if (isMutated) next = conform(call, next, { fieldValidation: "Ignore" });
  admission.object = next;
  // What the kind itself adds is derived from the name: a bad name is told once.
  const metadataCauses = metadataProblems(resource, next.metadata);
  resource.strategy.prepareForCreate?.(next);
  if (resource.strategy.hasGeneration !== false) next.metadata.generation = 1;
  // Admission comes before validation where it refuses by namespace: that is what a client has to be told first.
  await call.admission.validate(admission);
  const causes = [
    ...nameCauses(resource, next),
    ...metadataCauses,
    ...validationCauses(call, next, undefined),
    ...(resource.strategy.validateCreate?.(next) ?? []),
  ];
  if (causes.length > 0) throw invalid(resource, next.metadata.name ?? "", causes);
  requireStorable(call, next);
  const key = keyOf(call, next.metadata.name);
  if (options.isDryRun) {
    if (store.get(key) !== undefined) return undefined;
    return { kind: "object", status: 201, object: encodePlain(next), resource, subresource: "" };
  }
  const result = await store.write(key, 0, toStorageVersion(call, next));
  if (!result.ok) return undefined;
  return { kind: "object", status: 201, object: serve(call, result.stored), resource, subresource: "" };
}

/** Status is written through its subresource. Only kubelets bring their Node's along when they register. */
function resetsStatus({ resource }: Call): boolean {
  return resource.hasStatus && !(resource.group === "" && resource.plural === "nodes");
}

function requireStorable({ resource }: Call, object: KubernetesObject): void {
  if (!resource.verbs.includes("get"))
    throw forbidden(resource, object.metadata.name ?? "", "objects of this kind are not stored");
}
