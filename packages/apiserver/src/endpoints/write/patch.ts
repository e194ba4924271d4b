import {
  apiVersionOf,
  type DeepReadonly,
  isJsonObject,
  isStatusError,
  type JsonObject,
  type KubernetesObject,
  parseApiVersion,
  StatusError,
  statusError,
} from "@keelson/api-machinery";
import { goText, jsonPatchInSteps, mergePatchInSteps, strategicMergePatchInSteps } from "@keelson/api-machinery/patch";
import { applyConfigurationInSteps } from "@keelson/api-machinery/server";
import { invalidCause } from "@keelson/api-machinery/validation";
import type { ServedResource } from "../../registry/served-resource.ts";
import { conversionFault } from "../object/conversion-fault.ts";
import { jsonType } from "../object/decode-error.ts";
import { withTypeMeta, copyJson, readBody, requirePatchedNames } from "../object/body.ts";
import { type Call, keyOf } from "../call.ts";
import { normalizeObject } from "../object/normalize.ts";
import { createFrom } from "./create.ts";
import { badRequest, conflict, invalid, notFound } from "../errors.ts";
import { fieldContext } from "./field-context.ts";
import type { ObjectOutcome, PipelineRequest } from "../outcome.ts";
import { mutableCopy } from "./mutable-copy.ts";
import { pauseIfLarge, takeSteps, takeTurns } from "../pause.ts";
import { requireAppliedType } from "./applied-type.ts";
import { commitUpdate } from "./update.ts";
import { type WriteOptions, writeOptions } from "./write-options.ts";

/** The patch types, by Content-Type. */
export type PatchType = "json" | "merge" | "strategic" | "apply";

const types: Readonly<Record<string, PatchType>> = {
  "application/json-patch+json": "json",
  "application/merge-patch+json": "merge",
  "application/strategic-merge-patch+json": "strategic",
  "application/apply-patch+yaml": "apply",
};

/** The patch type of a request. Throws `UnsupportedMediaType` for unknown types and for strategic patches of custom resources. */
export function patchType(request: PipelineRequest, resource: Pick<ServedResource, "origin">): PatchType {
  const mediaType = (request.headers?.["content-type"] ?? "").split(";", 1)[0]?.trim() ?? "";
  const type = Object.hasOwn(types, mediaType) ? types[mediaType] : undefined;
  if (type !== undefined && !(type === "strategic" && resource.origin === "custom")) return type;
  // Built-in kinds have routes for patches, which reject other types before anything reads them.
  if (resource.origin === "builtin") throw statusError("UnsupportedMediaType", "415: Unsupported Media Type", {});
  const accepted = Object.keys(types).filter((name) => types[name] !== "strategic");
  throw statusError(
    "UnsupportedMediaType",
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(", ")}`,
    {},
  );
}

/** Parses a patch and returns a function that applies it, in several turns of the event loop if it takes long. */
export function readPatch(
  type: Exclude<PatchType, "apply">,
  body: unknown,
  schema: ServedResource["schema"],
): (target: unknown) => Promise<unknown> {
  if (body === undefined)
    throw badRequest(`${type === "strategic" ? "" : "error decoding patch: "}unexpected end of JSON input`);
  const patch = copyJson(body);
  if (type === "json") return (target) => patched(() => takeTurns(jsonPatchInSteps(target, patch)));
  // Go decodes null as an empty map.
  if (type === "strategic" && patch === null) return (target) => Promise.resolve(target);
  if (!isJsonObject(patch)) throw unreadablePatch(type, patch);
  if (type === "merge") return (target) => patched(() => takeTurns(mergePatchInSteps(target, patch)));
  return (target) => patched(() => takeTurns(strategicMergePatchInSteps(schema, target, patch)));
}

function unreadablePatch(type: "merge" | "strategic", patch: unknown): StatusError {
  if (patch === null) return badRequest("Invalid JSON Patch");
  const why = `json: cannot unmarshal ${jsonType(patch, "map")} into Go value of type map[string]interface {}`;
  return badRequest(type === "merge" ? `error decoding patch: ${why}` : why);
}

const rejected = "the server rejected our request due to an error in our request";

/** Reports a patch that cannot be applied to the object with kube-apiserver's message. */
async function patched(apply: () => unknown): Promise<unknown> {
  try {
    return await apply();
  } catch (error) {
    // kube-apiserver does not say which operation failed.
    if (isStatusError(error) && !error.message.startsWith(`${rejected}: `)) throw error;
    if (error instanceof TypeError || error instanceof RangeError) throw error;
    throw new StatusError(
      {
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Failure",
        message: rejected,
        reason: "Invalid",
        details: {},
        code: 422,
      },
      { cause: error },
    );
  }
}

/** A strategic merge patch and the type of its result. */
interface StrategicPatch {
  readonly patch: unknown;
  readonly resource: Pick<ServedResource, "group" | "version" | "kind">;
}

/**
 * Decodes the result of a patch. As in kube-apiserver, the patch is `Invalid` if the result is not an object of the kind. The error quotes
 * the result, or the patch if it is `strategic`, which kube-apiserver merges into a typed object.
 */
export async function decodePatched(
  result: unknown,
  decode: (result: JsonObject) => KubernetesObject | Promise<KubernetesObject>,
  strategic?: StrategicPatch,
): Promise<KubernetesObject> {
  try {
    if (!isJsonObject(result)) throw badRequest("the result is not an object");
    if (strategic !== undefined) requireConvertible(strategic.resource, result);
    return await decode(result);
  } catch (error) {
    if (!isStatusError(error, "BadRequest")) throw error;
    const why = error.message.replace(/^\S+ in version "\S*" cannot be handled as an? \S+: /, "");
    const shown = strategic === undefined ? JSON.stringify(result) : goText(strategic.patch);
    throw invalid({ group: "", kind: "" }, "", [invalidCause("patch", shown, why)]);
  }
}

/** kube-apiserver converts the result of a strategic merge patch without a decoder. */
function requireConvertible(resource: StrategicPatch["resource"], result: JsonObject): void {
  const fault = conversionFault(resource, result);
  if (fault !== undefined) throw badRequest(fault);
}

/** A patch of a custom object cannot change its kind or version. */
function requireSameType(resource: ServedResource, result: JsonObject, name: string): void {
  const { apiVersion, kind } = result;
  if (typeof apiVersion !== "string" || typeof kind !== "string" || apiVersion === "" || kind === "") return;
  const expected = apiVersionOf(resource);
  const causes = [
    kind === resource.kind ? undefined : invalidCause("kind", kind, `must be ${resource.kind}`),
    apiVersion === expected ? undefined : invalidCause("apiVersion", apiVersion, `must be ${expected}`),
  ].filter((cause) => cause !== undefined);
  if (causes.length > 0) throw invalid({ group: parseApiVersion(apiVersion).group, kind }, name, causes);
}

/** Serves patch of an object or its status. */
export async function patchObject(call: Call): Promise<ObjectOutcome> {
  const { resource, request, info } = call;
  const type = patchType(request, resource);
  const options = writeOptions(request, "PatchOptions", type === "apply");
  if (type === "apply") return applyObject(call, options);
  // As in kube-apiserver, a missing object is reported before a malformed patch.
  let patch: ReturnType<typeof readPatch> | undefined;
  const isStatus = info.subresource === "status";
  const object = await commitUpdate(call, {
    options,
    isUidChecked: false,
    async produce(live) {
      await pauseIfLarge(call);
      patch ??= readPatch(type, request.body, resource.schema);
      const result = await patch(live);
      await pauseIfLarge(call);
      const decode = (result: JsonObject): KubernetesObject | Promise<KubernetesObject> => {
        // A strategic merge patch cannot change kind and version.
        const named = type === "strategic" ? { ...result, apiVersion: live.apiVersion, kind: live.kind } : result;
        if (resource.origin === "custom") requireSameType(resource, result, info.name);
        return normalizeObject(call, mutableCopy(withTypeMeta(resource, named), isStatus), options);
      };
      const next = await decodePatched(result, decode, type === "strategic" ? { patch: request.body, resource } : undefined);
      requirePatchedNames(next, info.name, call.namespace);
      return next;
    },
  });
  return { kind: "object", status: 200, object, resource, subresource: info.subresource };
}

/** Adds the metadata of a configuration that an update compares with the stored object, which merging drops. */
function withPreconditions(next: KubernetesObject, { metadata }: KubernetesObject): KubernetesObject {
  for (const name of ["uid", "resourceVersion", "deletionTimestamp"] as const) {
    if (metadata[name] !== undefined) next.metadata[name] = metadata[name];
  }
  return next;
}

/** Serves server-side apply, which creates a missing object. */
async function applyObject(call: Call, options: WriteOptions): Promise<ObjectOutcome> {
  const { resource, request, info, store } = call;
  const config = readConfiguration(call);
  const context = { ...fieldContext(call, options, info.subresource), force: options.isForced };
  const isStatus = info.subresource === "status";
  const apply = async (live: DeepReadonly<KubernetesObject> | undefined): Promise<KubernetesObject> => {
    const applied = await takeSteps(applyConfigurationInSteps(live, config, context), call.load.bytes);
    if (applied === live) return withPreconditions(mutableCopy(live, isStatus), config);
    await pauseIfLarge(call);
    const next = await normalizeObject(call, mutableCopy(applied, isStatus), { ...options, isApplied: true });
    return live === undefined ? next : withPreconditions(next, config);
  };
  if (store.get(keyOf(call)) === undefined) {
    if (info.subresource !== "") throw notFound(resource, info.name);
    const { uid } = config.metadata;
    if (uid !== undefined) {
      const why = `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`;
      throw conflict(resource, info.name, why);
    }
    const object = await apply(undefined);
    try {
      return await createFrom(call, { object, options, isTracked: true });
    } catch (error) {
      // Another request created it in the meantime, so this one updates it.
      if (!isStatusError(error, "AlreadyExists") || store.get(keyOf(call)) === undefined) throw error;
    }
  }
  const object = await commitUpdate(call, {
    options,
    // As in kube-apiserver, another uid is a change of an immutable field.
    isUidChecked: false,
    isTracked: true,
    produce: apply,
  });
  return { kind: "object", status: 200, object, resource, subresource: info.subresource };

  function readConfiguration({ namespace }: Call): KubernetesObject {
    requireAppliedType(resource, request.body);
    const object = readBody(resource, request.body);
    const metadata: unknown = object.metadata;
    if (!isJsonObject(metadata)) throw badRequest("metadata must be an object");
    const named: JsonObject = { ...metadata };
    // An apply to an existing object may omit the name.
    if (store.get(keyOf(call)) !== undefined) named["name"] ??= info.name;
    const result = { ...object, metadata: named } as KubernetesObject;
    requirePatchedNames(result, info.name, namespace);
    return result;
  }
}
