import {
  apiVersionOf,
  type DeepReadonly,
  draft,
  isJsonObject,
  isStatusError,
  type JsonObject,
  type KubernetesObject,
  setOwn,
  statusError,
} from "@keelson/api-machinery";
import type { ScaleSubresource } from "@keelson/api-machinery/schema";
import { applyConfiguration } from "@keelson/api-machinery/server";
import { builtinSchema } from "../../registry/builtin/builtin-schemas.ts";
import { valueAt } from "../../registry/object-fields.ts";
import { segmentsOf } from "../../registry/crd/scale-validation.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { copyJson, requireNames, withTypeMeta } from "../object/body.ts";
import { type Call, keyOf } from "../call.ts";
import { normalizeObject } from "../object/normalize.ts";
import { encodeUnstored, serve } from "../object/serve-object.ts";
import { badRequest, conflict, invalid, methodNotAllowed, notFound } from "../errors.ts";
import { fieldContext } from "../write/field-context.ts";
import type { ObjectOutcome } from "../outcome.ts";
import { mutableCopy } from "../write/mutable-copy.ts";
import { decodePatched, patchType, readPatch } from "../write/patch.ts";
import { commitUpdate, type UpdateView } from "../write/update.ts";
import { type WriteOptions, writeOptions } from "../write/write-options.ts";

/** Serves get, update and patch of `scale` (autoscaling/v1 Scale). */
export async function scaleObject(call: Call): Promise<ObjectOutcome> {
  const { resource, info, request } = call;
  const scale = resource.scale;
  if (scale === undefined) throw methodNotAllowed(resource, info.verb);
  const answer = (object: DeepReadonly<KubernetesObject>): ObjectOutcome => ({
    kind: "object",
    status: 200,
    object: encodeUnstored(scaleOf(resource, scale, object)),
    resource,
    subresource: "scale",
  });
  const stored = call.store.get(keyOf(call));
  if (stored === undefined) throw notFound(resource, info.name);
  if (info.verb === "get") {
    const { object } = await serve(call, stored);
    if (resource.origin === "custom") requireSpecReplicas(scale, object);
    return answer(object);
  }
  if (info.verb !== "update" && info.verb !== "patch") throw methodNotAllowed(resource, info.verb);
  if (info.verb === "patch" && patchType(request, resource) === "apply") return answer(await applyScale(call, scale));
  const options = writeOptions(request, info.verb === "update" ? "UpdateOptions" : "PatchOptions");
  const next = info.verb === "update" ? replacement(call) : patched(call);
  const result = await commitUpdate(call, {
    options,
    isUidChecked: false,
    subresource: "scale",
    view: scaleView(call, scale),
    produce: async (live) => {
      const changed = await next(scaleOf(resource, scale, live));
      requireUid(call, changed, live);
      return withReplicas(call, scale, live, changed, options);
    },
  });
  return answer(result.object);
}

/** A custom object without a number of replicas has no Scale. */
function requireSpecReplicas({ specReplicasPath }: ScaleSubresource, object: DeepReadonly<KubernetesObject>): void {
  if (valueAt(object, ...segmentsOf(specReplicasPath)) !== undefined) return;
  const why = `the spec replicas field ${JSON.stringify(specReplicasPath)} does not exist`;
  throw statusError("InternalError", `Internal error occurred: ${why}`, { causes: [{ message: why }] });
}

/** Admission sees a Scale, whose replicas it may change. */
function scaleView({ resource }: Call, scale: ScaleSubresource): UpdateView {
  return {
    operation: "UPDATE",
    kind: { group: "autoscaling", version: "v1", kind: "Scale" },
    show: (object) => scaleOf(resource, scale, object),
    merge(object, view) {
      const next = draft(object);
      writePath(next, segmentsOf(scale.specReplicasPath), replicasOf(view) ?? 0);
      return next;
    },
  };
}

/** The uid of a Scale is a precondition. */
function requireUid({ resource, info }: Call, changed: KubernetesObject, live: DeepReadonly<KubernetesObject>): void {
  const { uid = "" } = changed.metadata;
  if (uid === "" || uid === live.metadata.uid) return;
  const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${live.metadata.uid ?? ""}`;
  throw conflict(resource, info.name, why);
}

/** Applies a Scale. The manager then owns the replicas of the object itself, through the subresource. */
async function applyScale(call: Call, scale: ScaleSubresource): Promise<DeepReadonly<KubernetesObject>> {
  const { request, resource, info, namespace } = call;
  const options = writeOptions(request, "PatchOptions", true);
  const applied = readScale(call, request.body);
  requireNames({ ...applied, metadata: { name: info.name, ...applied.metadata } }, info.name, namespace);
  const replicas = replicasOf(applied);
  const { resourceVersion, managedFields } = applied.metadata;
  if (managedFields !== undefined) throw badRequest("metadata.managedFields must be nil");
  const config: KubernetesObject = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata: { name: info.name } };
  if (replicas !== undefined) {
    writePath(config as unknown as Record<string, unknown>, segmentsOf(scale.specReplicasPath), replicas);
  }
  const context = { ...fieldContext(call, options, "scale"), force: options.isForced };
  const { object } = await commitUpdate(call, {
    options,
    isUidChecked: false,
    isTracked: true,
    subresource: "scale",
    view: scaleView(call, scale),
    produce: async (live) => {
      const merged = asConflictInScale(call, scale, () => applyConfiguration(live, config, context));
      if (merged === live) return mutableCopy(live, false);
      const next = await normalizeObject(call, mutableCopy(merged, false), options);
      if (resourceVersion !== undefined) next.metadata.resourceVersion = resourceVersion;
      return next;
    },
  });
  return object;
}

/** Managers of the replicas own a field of the Scale for those who apply one. */
function asConflictInScale<T>({ resource }: Call, { specReplicasPath }: ScaleSubresource, apply: () => T): T {
  try {
    return apply();
  } catch (error) {
    if (!isStatusError(error, "Conflict")) throw error;
    const inScale = (text: string): string =>
      text
        .replaceAll(` using ${apiVersionOf(resource)}`, " using autoscaling/v1")
        .replaceAll(specReplicasPath, ".spec.replicas");
    const causes = error.status.details?.causes?.map((cause) => ({
      ...cause,
      message: inScale(cause.message ?? ""),
      field: inScale(cause.field ?? ""),
    }));
    throw statusError("Conflict", inScale(error.message), causes === undefined ? {} : { causes });
  }
}

type ChangeScale = (live: KubernetesObject) => KubernetesObject | Promise<KubernetesObject>;

const scaleSchema = builtinSchema("autoscaling.v1.Scale");
const scaleResource = { origin: "builtin", group: "autoscaling", version: "v1", kind: "Scale" } as const;

function readScale({ resource }: Call, sent: unknown): KubernetesObject {
  const body = copyJson(sent);
  if (!isJsonObject(body)) throw badRequest("the body must be a Scale");
  return withTypeMeta({ ...resource, ...scaleResource }, body);
}

function replacement(call: Call): ChangeScale {
  const object = readScale(call, call.request.body);
  replicasOf(object);
  requireNames(object, call.info.name, call.namespace);
  return () => object;
}

function patched(call: Call): ChangeScale {
  const { request, resource, info, namespace } = call;
  const type = patchType(request, resource);
  if (type === "apply") throw new TypeError("apply patches are handled by applyScale");
  const patch = readPatch(type, request.body, scaleSchema);
  return async (live) => {
    const decode = (result: JsonObject): KubernetesObject => {
      const scale = withTypeMeta({ ...resource, ...scaleResource }, result);
      replicasOf(scale);
      return scale;
    };
    const strategic = type === "strategic" ? { patch: request.body, resource: scaleResource } : undefined;
    const object = await decodePatched(await patch(live), decode, strategic);
    requireNames(object, info.name, namespace);
    return object;
  };
}

/** The replicas of a Scale. Throws `BadRequest` unless they are an integer. */
function replicasOf(scale: KubernetesObject): number | undefined {
  const replicas = valueAt(scale, "spec", "replicas") ?? undefined;
  if (replicas === undefined) return undefined;
  if (typeof replicas === "number" && Number.isInteger(replicas)) return replicas;
  const type = typeof replicas === "number" ? `number ${replicas}` : Array.isArray(replicas) ? "array" : typeof replicas;
  throw badRequest(
    `Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal ${type} into Go struct field ScaleSpec.spec.replicas of type int32`,
  );
}

/** Sets the Scale's replicas on the object. The Scale's resourceVersion, if any, is a precondition. */
async function withReplicas(
  call: Call,
  scale: ScaleSubresource,
  live: DeepReadonly<KubernetesObject>,
  changed: KubernetesObject,
  options: WriteOptions,
): Promise<KubernetesObject> {
  const replicas = replicasOf(changed) ?? 0;
  // The validation of a custom resource reports this itself.
  if (replicas < 0 && call.resource.origin === "builtin") {
    throw invalid({ group: "autoscaling", kind: "Scale" }, call.info.name, [
      {
        reason: "FieldValueInvalid",
        field: "spec.replicas",
        message: `Invalid value: ${replicas}: must be greater than or equal to 0`,
      },
    ]);
  }
  const next = mutableCopy(live, false);
  writePath(next as unknown as Record<string, unknown>, segmentsOf(scale.specReplicasPath), replicas);
  const { resourceVersion } = changed.metadata;
  if (resourceVersion === undefined) delete next.metadata.resourceVersion;
  else next.metadata.resourceVersion = resourceVersion;
  return normalizeObject(call, next, options);
}

/** Returns the Scale of an object. */
function scaleOf(resource: ServedResource, scale: ScaleSubresource, object: DeepReadonly<KubernetesObject>): KubernetesObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const replicas = valueAt(object, ...segmentsOf(scale.specReplicasPath));
  const current = valueAt(object, ...segmentsOf(scale.statusReplicasPath));
  const selector = scale.labelSelectorPath === undefined ? undefined : valueAt(object, ...segmentsOf(scale.labelSelectorPath));
  const text = selectorText(selector);
  const value = {
    apiVersion: "autoscaling/v1",
    kind: "Scale",
    metadata: {
      name: name ?? "",
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
    },
    // As in kube-apiserver, 0 replicas are omitted.
    spec: replicas === undefined || replicas === 0 ? {} : { replicas: requireReplicas(resource, scale, replicas) },
    status: { replicas: typeof current === "number" ? current : 0, ...(text === "" ? {} : { selector: text }) },
  };
  return value;
}

function requireReplicas(resource: ServedResource, scale: ScaleSubresource, replicas: unknown): number {
  if (typeof replicas === "number") return replicas;
  throw statusError(
    "InternalError",
    `${resource.kind}: ${scale.specReplicasPath} is not a number but ${JSON.stringify(replicas)}`,
  );
}

/** Formats a selector. It is a string in custom resources, a LabelSelector or a map of labels in built-in ones. */
function selectorText(selector: unknown): string {
  if (typeof selector === "string") return selector;
  if (!isJsonObject(selector)) return "";
  const isPlain = !Object.hasOwn(selector, "matchLabels") && !Object.hasOwn(selector, "matchExpressions");
  const labels = isPlain ? selector : selector["matchLabels"];
  const terms = isJsonObject(labels) ? Object.entries(labels).map(([key, value]) => `${key}=${String(value)}`) : [];
  const expressions = isPlain ? undefined : selector["matchExpressions"];
  for (const expression of Array.isArray(expressions) ? expressions : []) {
    if (!isJsonObject(expression)) continue;
    const { key, operator, values } = expression;
    const list = Array.isArray(values) ? [...values].map(String).sort().join(",") : "";
    if (operator === "In") terms.push(`${String(key)} in (${list})`);
    else if (operator === "NotIn") terms.push(`${String(key)} notin (${list})`);
    else if (operator === "Exists") terms.push(String(key));
    else if (operator === "DoesNotExist") terms.push(`!${String(key)}`);
  }
  return terms.sort().join(",");
}

function writePath(target: Record<string, unknown>, segments: readonly string[], value: unknown): void {
  let current = target;
  for (const segment of segments.slice(0, -1)) {
    const child = Object.hasOwn(current, segment) ? current[segment] : undefined;
    if (isJsonObject(child)) {
      current = child;
      continue;
    }
    const created: Record<string, unknown> = {};
    setOwn(current, segment, created);
    current = created;
  }
  setOwn(current, segments.at(-1) ?? "", value);
}
