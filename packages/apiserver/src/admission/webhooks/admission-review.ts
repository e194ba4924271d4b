import { isJsonObject, type JsonObject, type Status } from "@keelson/api-machinery";
import type { ServedResource } from "../../registry/served-resource.ts";
import { WebhookError } from "../../webhooks/webhook-error.ts";
import type { AdmissionRequest, GroupVersionKind } from "../admission.ts";
import { userFields } from "../matching/cel-variables.ts";
import { nameOf, namespaceOf } from "../matching/selectors.ts";
import type { VersionedObjects } from "../matching/versioned-objects.ts";

const group = "admission.k8s.io";
const knownVersions: ReadonlySet<string> = new Set(["v1", "v1beta1"]);

/** The first version of AdmissionReview that both sides know; undefined if there is none. */
export function reviewVersion(accepted: readonly string[]): string | undefined {
  return accepted.find((version) => knownVersions.has(version));
}

/** Creates the AdmissionReview to send (admission/v1). */
export function admissionReview(
  version: string,
  uid: string,
  request: AdmissionRequest,
  resource: ServedResource,
  { object, oldObject }: VersionedObjects,
): JsonObject {
  const name = nameOf(request);
  const namespace = namespaceOf(request);
  const { subresource } = request;
  const kindOf = (each: ServedResource): JsonObject => kindFields(request.kind ?? each);
  return {
    kind: "AdmissionReview",
    apiVersion: `${group}/${version}`,
    request: {
      uid,
      kind: kindOf(resource),
      resource: resourceFields(resource),
      ...(subresource === "" ? {} : { subResource: subresource }),
      requestKind: kindOf(request.resource),
      requestResource: resourceFields(request.resource),
      ...(subresource === "" ? {} : { requestSubResource: subresource }),
      ...(name === "" ? {} : { name }),
      ...(namespace === "" ? {} : { namespace }),
      operation: request.operation,
      userInfo: userFields(request.user),
      object: (object ?? null) as JsonObject | null,
      oldObject: (oldObject ?? null) as JsonObject | null,
      dryRun: request.isDryRun,
      options: request.options ?? null,
    },
  };
}

function kindFields({ group: of, version, kind }: GroupVersionKind): JsonObject {
  return { group: of, version, kind };
}

function resourceFields({ group: of, version, plural }: ServedResource): JsonObject {
  return { group: of, version, resource: plural };
}

/** A verified response (admission/v1 AdmissionResponse). */
export interface AdmissionResponse {
  readonly isAllowed: boolean;
  /** Why the request is denied. */
  readonly status: Partial<Status> | undefined;
  /** The decoded JSON Patch; empty if there is none. */
  readonly patch: readonly unknown[];
  readonly warnings: readonly string[];
  readonly auditAnnotations: Readonly<Record<string, string>>;
}

/** Verifies the response to a review with kube-apiserver's rules. Throws a `WebhookError`. */
export function readAdmissionResponse(version: string, uid: string, mutates: boolean, review: unknown): AdmissionResponse {
  const response = isJsonObject(review) ? review["response"] : undefined;
  if (!isJsonObject(review) || !isJsonObject(response)) throw invalidResponse("webhook response was absent");
  if (version === "v1") {
    requireIdentity(review, response, uid);
    requirePatchType(response, mutates);
  }
  const { patch, patchType, status, warnings, auditAnnotations } = response;
  return {
    isAllowed: response["allowed"] === true,
    status: isJsonObject(status) ? status : undefined,
    patch: mutates && typeof patch === "string" && patch !== "" ? decodePatch(patch, version, patchType) : [],
    warnings: Array.isArray(warnings) ? warnings.filter((warning) => typeof warning === "string") : [],
    auditAnnotations: stringsOf(auditAnnotations),
  };
}

function requireIdentity(review: JsonObject, response: JsonObject, uid: string): void {
  const sent = typeof response["uid"] === "string" ? response["uid"] : "";
  if (sent !== uid) throw invalidResponse(`expected response.uid=${JSON.stringify(uid)}, got ${JSON.stringify(sent)}`);
  const { apiVersion = "", kind = "" } = review;
  if (apiVersion !== `${group}/v1` || kind !== "AdmissionReview") {
    const got = `${apiVersion === "" ? "/" : String(apiVersion)}, Kind=${String(kind)}`;
    throw invalidResponse(`expected webhook response of ${group}/v1, Kind=AdmissionReview, got ${got}`);
  }
}

function requirePatchType(response: JsonObject, mutates: boolean): void {
  const { patch, patchType = null } = response;
  const hasPatch = typeof patch === "string" && patch !== "";
  if (!mutates) {
    if (hasPatch) throw invalidResponse("validating webhook may not return response.patch");
    if (patchType !== null) throw invalidResponse("validating webhook may not return response.patchType");
    return;
  }
  if (hasPatch && patchType === null) throw invalidResponse("webhook returned response.patch but not response.patchType");
  if (!hasPatch && patchType !== null) {
    throw invalidResponse("webhook returned response.patchType but not response.patch");
  }
  if (patchType === "") throw invalidResponse('webhook returned invalid response.patchType of ""');
}

function decodePatch(patch: string, version: string, patchType: unknown): readonly unknown[] {
  if (version === "v1" && patchType !== "JSONPatch") {
    throw new WebhookError("InvalidResponse", `unsupported patch type ${JSON.stringify(patchType)}`);
  }
  try {
    const value: unknown = JSON.parse(Buffer.from(patch, "base64").toString());
    if (Array.isArray(value)) return value;
    throw new TypeError("json: cannot unmarshal object into Go value of type jsonpatch.Patch");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new WebhookError("InvalidResponse", `received undecodable patch in webhook response: ${why}`, { cause: error });
  }
}

function stringsOf(value: unknown): Readonly<Record<string, string>> {
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

function invalidResponse(why: string): WebhookError {
  return new WebhookError("InvalidResponse", `received invalid webhook response: ${why}`);
}
