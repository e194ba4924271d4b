import type { DeepReadonly, JsonObject, KubernetesObject } from "@keelson/api-machinery";
import type { AdmissionRequest, GroupVersionKind } from "../admission/admission.ts";
import type { ServedResource, UserInfo } from "../registry/served-resource.ts";
import type { Call } from "./call.ts";
import { normalizeObject } from "./object/normalize.ts";

/** What differs between the admissions of one call. */
type AdmissionPart = Pick<
  AdmissionRequest,
  "operation" | "subresource" | "kind" | "name" | "object" | "oldObject" | "isDryRun" | "options"
>;

/** The admission request of a call. */
export class CallAdmission implements AdmissionRequest {
  readonly operation: AdmissionRequest["operation"];
  readonly resource: ServedResource;
  readonly subresource: string;
  readonly kind: GroupVersionKind | undefined;
  readonly namespace: string;
  name: string;
  object: KubernetesObject | undefined;
  readonly oldObject: DeepReadonly<KubernetesObject> | undefined;
  readonly user: UserInfo;
  readonly isDryRun: boolean;
  readonly options: JsonObject | undefined;
  readonly #call: Call;

  constructor(call: Call, part: AdmissionPart) {
    this.#call = call;
    this.operation = part.operation;
    this.resource = call.resource;
    this.subresource = part.subresource;
    this.kind = part.kind;
    this.namespace = call.namespace;
    this.name = part.name;
    this.object = part.object;
    this.oldObject = part.oldObject;
    this.user = call.request.user;
    this.isDryRun = part.isDryRun;
    this.options = part.options;
  }

  /** Creating the signal is expensive, so only steps that wait read it. */
  get signal(): AbortSignal | undefined {
    return this.#call.request.signal;
  }

  whenEnded(end: () => void): void {
    this.#call.ends.add(end);
  }

  warn(text: string): void {
    this.#call.warnings.add(text);
  }

  annotate(key: string, value: string): void {
    this.#call.request.audit?.annotate(key, value);
  }

  /** A view such as Scale has its own kind, whose objects are not normalized by the resource's schema. */
  async normalize(object: KubernetesObject): Promise<KubernetesObject> {
    return this.kind === undefined ? normalizeObject(this.#call, object, { fieldValidation: "Ignore" }) : object;
  }
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
  const request = new CallAdmission(call, { ...part, subresource: call.info.subresource, oldObject: undefined });
  await call.admission.mutate(request);
  await call.admission.validate(request);
  await call.admission.review(request);
  return request.object ?? part.object;
}
