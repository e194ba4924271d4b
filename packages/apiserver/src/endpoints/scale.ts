import {
  draft,
  type DeepReadonly,
  isJsonObject,
  type KubernetesObject,
  type ScaleSubresource,
  setOwn,
  statusError,
} from "@keelson/api-machinery";
import { valueAt } from "../registry/object-fields.ts";
import { segmentsOf } from "../registry/scale-validation.ts";
import type { ServedResource } from "../registry/served-resource.ts";
import { asObject, copyJson } from "./body.ts";
import { type Call, keyOf } from "./call.ts";
import { conform } from "./conform.ts";
import { encodePlain, serve } from "./encoded.ts";
import { badRequest, invalid, methodNotAllowed, notFound } from "./errors.ts";
import type { ObjectOutcome } from "./outcome.ts";
import { patchType, readPatch } from "./patch.ts";
import { requireNames } from "./body.ts";
import { commitUpdate } from "./update.ts";
import { type WriteOptions, writeOptions } from "./write-options.ts";

/** Answers get, update and patch of `scale` (autoscaling/v1 Scale). */
export async function scaleObject(call: Call): Promise<ObjectOutcome> {
  const { resource, info, request } = call;
  const scale = resource.scale;
  if (scale === undefined) throw methodNotAllowed(resource);
  const answer = (object: DeepReadonly<KubernetesObject>): ObjectOutcome => ({
    kind: "object",
    status: 200,
    object: encodePlain(scaleOf(resource, scale, object)),
    resource,
    subresource: "scale",
  });
  const stored = call.store.get(keyOf(call));
  if (stored === undefined) throw scaleNotFound(resource, info.name);
  if (info.verb === "get") return answer(serve(call, stored).object);
  if (info.verb !== "update" && info.verb !== "patch") throw methodNotAllowed(resource);
  const options = writeOptions(request, info.verb === "update" ? "UpdateOptions" : "PatchOptions");
  const next = info.verb === "update" ? replacement(call) : patched(call);
  const result = await commitUpdate(call, {
    options,
    isUidChecked: false,
    attempts: info.verb === "update" ? Number.POSITIVE_INFINITY : 5,
    subresource: "scale",
    produce: (live) => withReplicas(call, scale, live, next(scaleOf(resource, scale, live)), options),
  });
  return answer(result.object);
}

type ChangeScale = (live: KubernetesObject) => KubernetesObject;

const scaleResource = { origin: "builtin", group: "autoscaling", version: "v1", kind: "Scale" } as const;

function replacement({ request, resource, info, namespace }: Call): ChangeScale {
  const body = copyJson(request.body);
  if (!isJsonObject(body)) throw badRequest("the body must be a Scale");
  const object = asObject({ ...resource, ...scaleResource }, body);
  requireNames(object, info.name, namespace);
  return () => object;
}

function patched({ request, resource, info, namespace }: Call): ChangeScale {
  const type = patchType(request, { origin: "custom" });
  if (type === "apply") {
    throw statusError("UnsupportedMediaType", "scale can't be applied to here: patch it, or apply the object itself");
  }
  const patch = readPatch(type, request.body, {});
  return (live) => {
    const result = patch(live);
    if (!isJsonObject(result)) throw badRequest("the patch leaves no Scale");
    const object = asObject({ ...resource, ...scaleResource }, result);
    requireNames(object, info.name, namespace);
    return object;
  };
}

/** The object with the Scale's replicas. Its resourceVersion, if any, is the precondition. */
function withReplicas(
  call: Call,
  scale: ScaleSubresource,
  live: DeepReadonly<KubernetesObject>,
  changed: KubernetesObject,
  options: WriteOptions,
): KubernetesObject {
  const spec: unknown = Reflect.get(changed, "spec");
  const replicas = isJsonObject(spec) ? (spec["replicas"] ?? 0) : 0;
  if (typeof replicas !== "number" || !Number.isInteger(replicas))
    throw badRequest("spec.replicas of a Scale must be a whole number");
  // Of a custom resource its own validation tells.
  if (replicas < 0 && call.resource.origin === "builtin") {
    throw invalid({ group: "autoscaling", kind: "Scale" }, call.info.name, [
      {
        reason: "FieldValueInvalid",
        field: "spec.replicas",
        message: `Invalid value: ${replicas}: must be greater than or equal to 0`,
      },
    ]);
  }
  const next = draft(live) as KubernetesObject;
  writePath(next as unknown as Record<string, unknown>, segmentsOf(scale.specReplicasPath), replicas);
  const { resourceVersion } = changed.metadata;
  if (resourceVersion === undefined) delete next.metadata.resourceVersion;
  else next.metadata.resourceVersion = resourceVersion;
  return conform(call, next, options);
}

/** The Scale of an object. */
export function scaleOf(
  resource: ServedResource,
  scale: ScaleSubresource,
  object: DeepReadonly<KubernetesObject>,
): KubernetesObject {
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
    // As Kubernetes sends it: no replicas is 0 replicas.
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

/** A selector as text: it is text in custom resources, a LabelSelector (or a plain map) in built-in ones. */
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
    const made: Record<string, unknown> = {};
    setOwn(current, segment, made);
    current = made;
  }
  setOwn(current, segments.at(-1) ?? "", value);
}

function scaleNotFound(resource: ServedResource, name: string): Error {
  if (resource.origin === "custom") return notFound(resource, name);
  const suffix = resource.group === "" ? "" : `.${resource.group}`;
  return statusError("NotFound", `${resource.plural}/scale${suffix} ${JSON.stringify(name)} not found`, {});
}
