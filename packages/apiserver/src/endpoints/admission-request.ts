import type { JsonObject, KubernetesObject } from "@keelson/api-machinery";
import type { AdmissionRequest } from "../admission/admission.ts";
import type { Call } from "./call.ts";
import { normalizeObject } from "./object/normalize.ts";

/** What differs between the admissions of one call. */
type AdmissionPart = Pick<
  AdmissionRequest,
  "operation" | "subresource" | "kind" | "name" | "object" | "oldObject" | "isDryRun" | "options"
>;

/** Creates the admission request of a call. */
export function admissionRequest(call: Call, part: AdmissionPart): AdmissionRequest {
  const { request, resource, namespace, warnings } = call;
  // A view such as Scale has a kind of its own, whose objects are not normalized by the resource's schema.
  const isView = part.kind !== undefined;
  return {
    ...part,
    resource,
    namespace,
    user: request.user,
    // Creating the signal is expensive, so only steps that wait read it.
    get signal() {
      return request.signal;
    },
    warn: (text) => {
      if (!warnings.includes(text)) warnings.push(text);
    },
    ...(isView
      ? {}
      : { normalize: (object: KubernetesObject) => normalizeObject(call, object, { fieldValidation: "Ignore" }) }),
  };
}

/** Options of a create or update as admission sees them (meta/v1 CreateOptions and UpdateOptions). */
export function operationOptions({ request }: Pick<Call, "request">, kind: "CreateOptions" | "UpdateOptions"): JsonObject {
  const { dryRun, fieldManager, fieldValidation } = request.query ?? {};
  return {
    kind,
    apiVersion: "meta.k8s.io/v1",
    ...(dryRun === undefined ? {} : { dryRun: [dryRun] }),
    ...(fieldManager === undefined ? {} : { fieldManager }),
    ...(fieldValidation === undefined ? {} : { fieldValidation }),
  };
}

/** Admits an object that is not stored: a review, an eviction, or the options of a connection. Resolves to the admitted object. */
export async function admitUnstored(
  call: Call,
  part: Pick<AdmissionRequest, "operation" | "kind" | "name" | "isDryRun" | "options"> & { readonly object: KubernetesObject },
): Promise<KubernetesObject> {
  const request = admissionRequest(call, { ...part, subresource: call.info.subresource, oldObject: undefined });
  await call.admission.mutate(request);
  await call.admission.validate(request);
  await call.admission.review(request);
  return request.object ?? part.object;
}
