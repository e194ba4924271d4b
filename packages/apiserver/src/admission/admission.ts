import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { ServedResource, UserInfo } from "../registry/served-resource.ts";

/** A write under admission (admission/v1 AdmissionRequest). */
export interface AdmissionRequest {
  readonly operation: "CREATE" | "UPDATE" | "DELETE" | "CONNECT";
  readonly resource: ServedResource;
  /** `""` for the object itself. */
  readonly subresource: string;
  /** `""` for cluster-scoped kinds. */
  readonly namespace: string;
  /** `""` if it has yet to be generated. */
  readonly name: string;
  /** The object to store; undefined for a delete. A mutating step changes or replaces it. */
  object: KubernetesObject | undefined;
  /** The stored object; undefined for a create. */
  readonly oldObject: DeepReadonly<KubernetesObject> | undefined;
  readonly user: UserInfo;
  readonly isDryRun: boolean;
  /** Adds a warning to the response. */
  warn(text: string): void;
}

/**
 * One admission rule. `mutate` runs first, for all steps in order, and returns whether it changed `object`; `validate` sees the object
 * to store and must not change it. Either rejects the write by throwing a `StatusError`.
 */
export interface AdmissionStep {
  readonly name: string;
  mutate?(request: AdmissionRequest): boolean | Promise<boolean>;
  validate?(request: AdmissionRequest): void | Promise<void>;
  /** As `validate`, but after the object has passed validation. */
  review?(request: AdmissionRequest): void | Promise<void>;
}

/** The admission steps in order. */
export interface AdmissionChain {
  /** Resolves to whether a step changed the object, which must then be defaulted and validated again. */
  mutate(request: AdmissionRequest): Promise<boolean>;
  validate(request: AdmissionRequest): Promise<void>;
  review(request: AdmissionRequest): Promise<void>;
}

/** Creates a chain that runs `steps` in order and stops at the first rejection. */
export function createAdmissionChain(steps: readonly AdmissionStep[]): AdmissionChain {
  const mutating = steps.filter((step) => step.mutate !== undefined);
  const validating = steps.filter((step) => step.validate !== undefined);
  const reviewing = steps.filter((step) => step.review !== undefined);
  return {
    async mutate(request) {
      let isChanged = false;
      for (const step of mutating) if (await step.mutate?.(request)) isChanged = true;
      return isChanged;
    },
    async validate(request) {
      for (const step of validating) await step.validate?.(request);
    },
    async review(request) {
      for (const step of reviewing) await step.review?.(request);
    },
  };
}
