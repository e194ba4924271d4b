import { isJsonObject, isStatusError, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { Logger } from "../logging/logger.ts";
import type { AdmissionRequest, AdmissionResult } from "./admission-types.ts";
import type { ConversionDefinition } from "./define-conversion.ts";
import { DeniedError } from "./webhook-context.ts";
import type { WebhookDefinition } from "./webhook-definition.ts";

/** What answering a review needs. */
export interface ReviewContext {
  readonly client: Client;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Called when a handler throws something that is not a denial. */
  readonly onPanic: () => void;
}

/** A review that cannot be read. */
export class ReviewError extends Error {
  override readonly name = "ReviewError";
  readonly code = "InvalidReview";
}

/** Answers an AdmissionReview (admission/v1). Throws a `ReviewError` if it is malformed. */
export async function answerAdmission(
  webhook: WebhookDefinition,
  review: unknown,
  context: ReviewContext,
): Promise<JsonObject> {
  const request = readRequest(review);
  const warnings: string[] = [];
  const auditAnnotations: Record<string, string> = {};
  const log = context.log.child({
    webhook: webhook.name,
    operation: request.operation,
    namespace: request.namespace,
    name: request.name,
  });
  const respond = (rest: JsonObject): JsonObject => ({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: {
      uid: request.uid,
      ...rest,
      ...(warnings.length === 0 ? {} : { warnings }),
      ...(Object.keys(auditAnnotations).length === 0 ? {} : { auditAnnotations }),
    },
  });
  try {
    const result = await webhook.handle(request, {
      request,
      client: context.client,
      log,
      signal: context.signal,
      warn: (text) => void warnings.push(text),
      audit: (key, value) => void (auditAnnotations[key] = value),
    });
    return respond(responseOf(webhook, result));
  } catch (error) {
    return respond({ allowed: false, status: statusOf(error, log, context) });
  }
}

function responseOf(webhook: WebhookDefinition, result: AdmissionResult): JsonObject {
  if (!result.allowed) {
    const { message, code = 403, reason = "Forbidden" } = result;
    return { allowed: false, status: { message, code, reason } };
  }
  const { patch = [] } = result;
  if (patch.length === 0 || webhook.type === "validating") return { allowed: true };
  return { allowed: true, patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") };
}

/** The status of a denial. Of an unexpected error, the API server learns no details. */
function statusOf(error: unknown, log: Logger, { onPanic }: ReviewContext): JsonObject {
  if (isStatusError(error)) return JSON.parse(JSON.stringify(error.status)) as JsonObject;
  if (error instanceof DeniedError) return { message: error.message, code: 403, reason: "Forbidden" };
  log.error({ err: error }, "webhook failed");
  onPanic();
  return { message: "the webhook failed, see its log", code: 500, reason: "InternalError" };
}

function readRequest(review: unknown): AdmissionRequest {
  const request = isJsonObject(review) ? review["request"] : undefined;
  if (!isJsonObject(review) || review["kind"] !== "AdmissionReview" || !isJsonObject(request)) {
    throw new ReviewError("the body must be an AdmissionReview with a request");
  }
  const { subResource = "", name = "", namespace = "", dryRun = false, object, oldObject, options, ...rest } = request;
  const objectOf = (value: unknown): KubernetesObject | undefined =>
    isJsonObject(value) ? (value as unknown as KubernetesObject) : undefined;
  return {
    ...(rest as unknown as AdmissionRequest),
    subResource: String(subResource),
    name: String(name),
    namespace: String(namespace),
    dryRun: dryRun === true,
    object: objectOf(object),
    oldObject: objectOf(oldObject),
    options: isJsonObject(options) ? options : undefined,
  };
}

/** Answers a ConversionReview (apiextensions/v1). Throws a `ReviewError` if it is malformed. */
export function answerConversion(
  conversions: ReadonlyMap<string, ConversionDefinition>,
  review: unknown,
  { log, onPanic }: ReviewContext,
): JsonObject {
  const request = isJsonObject(review) ? review["request"] : undefined;
  if (!isJsonObject(review) || review["kind"] !== "ConversionReview" || !isJsonObject(request)) {
    throw new ReviewError("the body must be a ConversionReview with a request");
  }
  const { uid = "", desiredAPIVersion = "", objects = [] } = request;
  const respond = (rest: JsonObject): JsonObject => ({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "ConversionReview",
    response: { uid, ...rest },
  });
  try {
    const converted = (Array.isArray(objects) ? objects : []).map((object) => {
      const source = object as unknown as KubernetesObject;
      const conversion = conversions.get(`${source.kind}.${groupOf(source.apiVersion)}`);
      if (conversion === undefined)
        throw new ReviewError(`no conversion is defined for ${source.kind} in ${source.apiVersion}`);
      return conversion.convert(source, String(desiredAPIVersion)) as unknown as JsonObject;
    });
    return respond({ result: { status: "Success" }, convertedObjects: converted });
  } catch (error) {
    log.error({ err: error, desiredAPIVersion }, "conversion failed");
    onPanic();
    const message = error instanceof Error ? error.message : String(error);
    return respond({ result: { status: "Failure", message }, convertedObjects: [] });
  }
}

function groupOf(apiVersion: string): string {
  return apiVersion.includes("/") ? (apiVersion.split("/")[0] ?? "") : "";
}
