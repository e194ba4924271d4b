import { type DeepReadonly, draft, isJsonObject, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { unclassifiedError } from "@keelson/api-machinery/validation";
import type { WebhookClient } from "../../webhooks/webhook-client.ts";
import { WebhookError } from "../../webhooks/webhook-error.ts";
import { webhookTarget } from "../../webhooks/webhook-target.ts";
import * as check from "../field-checks.ts";
import { listAt, textAt, valueAt } from "../object-fields.ts";
import type { ConvertByWebhook } from "../served-resource.ts";
import { acceptedReviewVersions } from "../webhook-client-validation.ts";
import type { CustomResourceDefinition } from "./crd-spec.ts";

type Read = DeepReadonly<KubernetesObject>;

/** What conversion webhooks need. */
export interface ConversionServices {
  readonly client: Pick<WebhookClient, "post">;
  readonly newId: () => string;
}

const timeoutMs = 30_000;
/** Objects per call, so that neither request nor response becomes too large. */
const maxObjects = 100;
const maxResponseBytes = 64 * 1024 * 1024;

/** Returns the conversion of a CRD with the strategy `Webhook` (apiextensions/v1 ConversionReview); undefined for other strategies. */
export function webhookConverter(
  crd: DeepReadonly<CustomResourceDefinition>,
  services: ConversionServices,
): ConvertByWebhook | undefined {
  const conversion: unknown = crd.spec.conversion;
  if (textAt(conversion, "strategy") !== "Webhook") return undefined;
  const target = webhookTarget(valueAt(conversion, "webhook", "clientConfig"));
  const version = listAt(conversion, "webhook", "conversionReviewVersions").find((each) =>
    acceptedReviewVersions.includes(String(each)),
  );

  const convert = async (objects: readonly Read[], desiredAPIVersion: string): Promise<readonly KubernetesObject[]> => {
    const first = objects[0];
    const subject = `conversion webhook for ${first?.apiVersion ?? ""}, Kind=${first?.kind ?? ""}`;
    if (target === undefined || version === undefined) {
      throw unclassifiedError(`${subject} failed: no supported conversion review versions`);
    }
    const uid = services.newId();
    const review = {
      kind: "ConversionReview",
      apiVersion: `apiextensions.k8s.io/${String(version)}`,
      request: { uid, desiredAPIVersion, objects },
    };
    try {
      const response = await services.client.post(target, review, { timeoutMs, maxResponseBytes });
      const converted = convertedObjects(String(version), uid, response);
      if (converted.length === objects.length) {
        return objects.map((original, index) => verified(converted[index] ?? {}, original, desiredAPIVersion, subject, index));
      }
      const counts = `returned ${converted.length} objects, expected ${objects.length}`;
      throw unclassifiedError(`${subject} ${counts}`);
    } catch (error) {
      if (error instanceof WebhookError) throw unclassifiedError(`${subject} failed: ${error.message}`);
      throw error;
    }
  };

  return async (objects, apiVersion) => {
    const others = objects.filter((object) => object.apiVersion !== apiVersion);
    const converted = new Map<Read, Read>();
    for (let start = 0; start < others.length; start += maxObjects) {
      const batch = others.slice(start, start + maxObjects);
      const results = await convert(batch, apiVersion);
      for (const [index, object] of batch.entries()) converted.set(object, results[index] ?? object);
    }
    return objects.map((object) => converted.get(object) ?? object);
  };
}

/** Reads the objects of a ConversionReview's response. Throws a `WebhookError`. */
function convertedObjects(version: string, uid: string, review: unknown): readonly JsonObject[] {
  const response = isJsonObject(review) ? review["response"] : undefined;
  if (version === "v1") {
    const { apiVersion = "", kind = "" } = isJsonObject(review) ? review : {};
    if (apiVersion !== "apiextensions.k8s.io/v1" || kind !== "ConversionReview") {
      const got = `${apiVersion === "" ? "/" : String(apiVersion)}, Kind=${String(kind)}`;
      throw invalid(`expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got ${got}`);
    }
  }
  if (!isJsonObject(response)) throw invalid("no response provided");
  const sent = textAt(response, "uid");
  if (version === "v1" && sent !== uid) {
    throw invalid(`expected response.uid=${JSON.stringify(uid)}, got ${JSON.stringify(sent)}`);
  }
  const status = textAt(response, "result", "status");
  if (status !== "Success") {
    const message = textAt(response, "result", "message");
    throw invalid(message === "" ? `response.result.status was '${status}', not 'Success'` : message);
  }
  return listAt(response, "convertedObjects").filter(isJsonObject);
}

function invalid(why: string): WebhookError {
  return new WebhookError("InvalidResponse", why);
}

/** Checks that a converted object is the same object in the desired version, and restores its metadata except labels and annotations. */
function verified(value: JsonObject, original: Read, apiVersion: string, subject: string, index: number): KubernetesObject {
  const at = `${subject} returned invalid converted object at index ${index}`;
  if (value["apiVersion"] !== apiVersion) {
    throw unclassifiedError(
      `${at}: invalid groupVersion (expected ${apiVersion}, received ${String(value["apiVersion"] ?? "")})`,
    );
  }
  if (value["kind"] !== original.kind) {
    throw unclassifiedError(`${at}: invalid kind (expected ${original.kind}, received ${String(value["kind"] ?? "")})`);
  }
  const metadata = value["metadata"];
  for (const [field, name] of [
    ["name", "name"],
    ["namespace", "namespace"],
    ["uid", "UID"],
  ] as const) {
    const [before, after] = [original.metadata[field] ?? "", textAt(metadata, field)];
    if (before !== after) throw unclassifiedError(`${at}: must have the same ${name}: ${before} != ${after}`);
  }
  if (!isJsonObject(metadata)) {
    throw unclassifiedError(
      `${subject} returned invalid metadata in object at index ${index}: missing metadata in converted object`,
    );
  }
  const { labels, annotations } = metadata;
  const causes = [...check.labels("metadata.labels", labels), ...check.annotations("metadata.annotation", annotations)];
  const fault = causes[0];
  if (fault !== undefined) {
    const why = `${fault.field ?? ""}: ${fault.message ?? ""}`;
    throw unclassifiedError(`${subject} returned invalid metadata in object at index ${index}: ${why}`);
  }
  const { labels: _labels, annotations: _annotations, ...kept } = original.metadata;
  return {
    ...(value as unknown as KubernetesObject),
    apiVersion,
    metadata: {
      ...(draft(kept) as KubernetesObject["metadata"]),
      ...(isJsonObject(labels) ? { labels: labels as Record<string, string> } : {}),
      ...(isJsonObject(annotations) ? { annotations: annotations as Record<string, string> } : {}),
    },
  };
}
