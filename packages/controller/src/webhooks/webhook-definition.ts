import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { LabelSelector } from "@keelson/api-machinery/selectors";
import type { StatusCause } from "@keelson/api-machinery/validation";
import type { AdmissionRequest, AdmissionResult, Operation } from "./admission-types.ts";
import type { WebhookContext } from "./webhook-context.ts";

/** A rule of a webhook (admissionregistration/v1 RuleWithOperations). `*` matches everything. */
export interface WebhookRule {
  readonly operations: readonly (Operation | "*")[];
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  /** Plurals, with subresources after a slash: `pods`, `pods/status`, all with `*`. */
  readonly resources: readonly string[];
  /** Default `*`. */
  readonly scope?: "Cluster" | "Namespaced" | "*";
}

/** Which requests the API server sends, and what it does if the call fails (admissionregistration/v1). */
export interface WebhookPolicies {
  /** What happens if the webhook cannot be called. Default `Fail`: the request is rejected. */
  readonly failurePolicy?: "Fail" | "Ignore";
  /** `Equivalent` (the default) also sends requests for other versions of the kind, converted to this one. */
  readonly matchPolicy?: "Equivalent" | "Exact";
  /** Default: all namespaces. */
  readonly namespaceSelector?: LabelSelector;
  /** Default: all objects. */
  readonly objectSelector?: LabelSelector;
  /** CEL expressions that must all hold. */
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[];
  /** 1 to 30. Default 10. */
  readonly timeoutSeconds?: number;
  /** Whether the webhook has effects other than its response; then it must not have them for dry runs. Default `None`. */
  readonly sideEffects?: "None" | "NoneOnDryRun";
  /** Whether a mutating webhook is called again if a later one changed the object. Default `Never`. */
  readonly reinvocationPolicy?: "Never" | "IfNeeded";
}

/** The result of a validator: nothing if the request is valid, or what is invalid (422). */
export type ValidationResult = void | undefined | readonly StatusCause[];

/** Validates requests by operation. Absent functions are not called, and their requests are not sent. */
export interface Validator<T extends KubernetesObject> {
  create?(object: DeepReadonly<T>, context: WebhookContext<T>): ValidationResult | Promise<ValidationResult>;
  update?(
    object: DeepReadonly<T>,
    old: DeepReadonly<T>,
    context: WebhookContext<T>,
  ): ValidationResult | Promise<ValidationResult>;
  delete?(old: DeepReadonly<T>, context: WebhookContext<T>): ValidationResult | Promise<ValidationResult>;
}

/** Options of {@link defineWebhook}. */
export interface WebhookOptions<T extends KubernetesObject> extends WebhookPolicies {
  /** The kind whose objects the functions get. */
  readonly for: ResourceType<T>;
  /** Ends the names of the webhooks, which begin with `default.` and `validate.`. Default: `<plural>.<group>`. */
  readonly name?: string;
  /** Sets defaults on `object` in place, on create and update. */
  default?(object: T, context: WebhookContext<T>): void | Promise<void>;
  readonly validate?: Validator<T>;
  /** Instead of `default`: handles the requests of a mutating webhook. */
  mutateRequest?(request: AdmissionRequest<T>, context: WebhookContext<T>): AdmissionResult | Promise<AdmissionResult>;
  /** Instead of `validate`: handles the requests of a validating webhook. */
  validateRequest?(request: AdmissionRequest<T>, context: WebhookContext<T>): AdmissionResult | Promise<AdmissionResult>;
  /** Default: the kind itself, and the operations of the functions. Required for handlers of other operations and resources. */
  readonly rules?: readonly WebhookRule[];
}

/** A webhook as the server and the configuration see it. */
export interface WebhookDefinition {
  readonly type: "mutating" | "validating";
  /** A fully qualified name. */
  readonly name: string;
  /** The URL path, as in controller-runtime: `/validate-example-com-v1-lamp`. */
  readonly path: string;
  readonly rules: readonly WebhookRule[];
  readonly policies: WebhookPolicies;
  /** Handles a request, whose objects are not checked against the type. */
  handle(request: AdmissionRequest, context: WebhookContext): Promise<AdmissionResult>;
}

/** The webhooks of one kind. */
export interface KindWebhooks {
  readonly webhooks: readonly WebhookDefinition[];
}
