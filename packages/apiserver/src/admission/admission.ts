import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { ServedResource, UserInfo } from "../registry/served-resource.ts";

/** A write, as admission sees it (admission/v1 AdmissionRequest). */
export interface AdmissionRequest {
  readonly operation: "CREATE" | "UPDATE" | "DELETE" | "CONNECT";
  readonly resource: ServedResource;
  /** `""` for the object itself. */
  readonly subresource: string;
  /** `""` for cluster-scoped kinds. */
  readonly namespace: string;
  /** `""` where it is still to be generated. */
  readonly name: string;
  /** What is to be stored; undefined for a delete. A mutating step changes it or puts another in its place. */
  object: KubernetesObject | undefined;
  /** What is stored; undefined for a create. */
  readonly oldObject: DeepReadonly<KubernetesObject> | undefined;
  readonly user: UserInfo;
  readonly isDryRun: boolean;
  /** Adds a text for the client. */
  warn(text: string): void;
}

/**
 * One rule about writes. `mutate` runs first for all steps in their order and says whether it changed `object`; `validate` sees
 * what is to be stored and changes nothing. Either refuses by throwing a `StatusError`.
 */
export interface AdmissionStep {
  readonly name: string;
  mutate?(request: AdmissionRequest): boolean | Promise<boolean>;
  validate?(request: AdmissionRequest): void | Promise<void>;
}

/** All steps as one. */
export interface AdmissionChain {
  /** Whether any step changed the object: then it is to be defaulted and validated again. */
  mutate(request: AdmissionRequest): Promise<boolean>;
  validate(request: AdmissionRequest): Promise<void>;
}

/** Makes a chain that runs `steps` in order; the first that refuses ends it. */
export function createAdmissionChain(steps: readonly AdmissionStep[]): AdmissionChain {
  const mutating = steps.filter((step) => step.mutate !== undefined);
  const validating = steps.filter((step) => step.validate !== undefined);
  return {
    async mutate(request) {
      let isChanged = false;
      for (const step of mutating) if (await step.mutate?.(request)) isChanged = true;
      return isChanged;
    },
    async validate(request) {
      for (const step of validating) await step.validate?.(request);
    },
  };
}
