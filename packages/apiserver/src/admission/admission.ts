import type { DeepReadonly, JsonObject, KubernetesObject } from "@keelson/api-machinery";
import type { ServedResource, UserInfo } from "../registry/served-resource.ts";

/** Group, version and kind of an object. */
export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** A write under admission (admission/v1 AdmissionRequest). */
export interface AdmissionRequest {
  readonly operation: "CREATE" | "UPDATE" | "DELETE" | "CONNECT";
  readonly resource: ServedResource;
  /** `""` for the object itself. */
  readonly subresource: string;
  /** The kind of `object` if it differs from the resource's: Scale, Eviction, PodExecOptions. */
  readonly kind?: GroupVersionKind;
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
  /** The options of the request (meta/v1 CreateOptions, UpdateOptions or DeleteOptions). */
  readonly options?: JsonObject | undefined;
  /** Aborted when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
  /** Adds a warning to the response. */
  warn(text: string): void;
  /** Adds an annotation to the request's audit event. Default: there is no audit log. */
  annotate?(key: string, value: string): void;
  /** Prunes and defaults an object that a step has replaced. Default: unchanged. */
  normalize?(object: KubernetesObject): Promise<KubernetesObject>;
}

/**
 * One admission rule. `mutate` runs first, for all steps in order, and returns whether it changed `object`; `validate` sees the object
 * to store and must not change it. Either rejects the write by throwing a `StatusError`.
 */
export interface AdmissionStep {
  readonly name: string;
  mutate?(request: AdmissionRequest): boolean | Promise<boolean>;
  /** Instead of `mutate`, for a step that remembers what it did in the first round. */
  beginMutation?(request: AdmissionRequest): Mutation;
  validate?(request: AdmissionRequest): void | Promise<void>;
  /** As `validate`, but after the object has passed validation. */
  review?(request: AdmissionRequest): void | Promise<void>;
}

/** The mutation of one request by one step. */
export interface Mutation {
  run(isReinvocation: boolean): Promise<MutationResult>;
}

/** What a mutation did. */
export interface MutationResult {
  readonly isChanged: boolean;
  /** Whether all steps must run once more, because they have not seen this change. */
  readonly needsReinvocation: boolean;
}

/** The admission steps in order. */
export interface AdmissionChain {
  /** Resolves to whether a step changed the object, which must then be defaulted and validated again. */
  mutate(request: AdmissionRequest): Promise<boolean>;
  validate(request: AdmissionRequest): Promise<void>;
  review(request: AdmissionRequest): Promise<void>;
}

/** Creates a chain that runs `steps` in order and stops at the first rejection. Mutating steps run at most twice. */
export function createAdmissionChain(steps: readonly AdmissionStep[]): AdmissionChain {
  const mutating = steps.filter((step) => step.mutate !== undefined || step.beginMutation !== undefined);
  const validating = steps.filter((step) => step.validate !== undefined);
  const reviewing = steps.filter((step) => step.review !== undefined);
  return {
    async mutate(request) {
      const mutations = mutating.map((step) => step.beginMutation?.(request) ?? simpleMutation(step, request));
      const first = await runAll(mutations, false);
      if (!first.needsReinvocation) return first.isChanged;
      await runAll(mutations, true);
      return true;
    },
    async validate(request) {
      for (const step of validating) await step.validate?.(request);
    },
    async review(request) {
      for (const step of reviewing) await step.review?.(request);
    },
  };
}

function simpleMutation(step: AdmissionStep, request: AdmissionRequest): Mutation {
  return {
    run: async () => ({ isChanged: (await step.mutate?.(request)) === true, needsReinvocation: false }),
  };
}

async function runAll(mutations: readonly Mutation[], isReinvocation: boolean): Promise<MutationResult> {
  let isChanged = false;
  let needsReinvocation = false;
  for (const mutation of mutations) {
    const result = await mutation.run(isReinvocation);
    isChanged ||= result.isChanged;
    needsReinvocation ||= result.needsReinvocation;
  }
  return { isChanged, needsReinvocation };
}
