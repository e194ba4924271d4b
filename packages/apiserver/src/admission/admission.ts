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
  readonly kind?: GroupVersionKind | undefined;
  /** `""` for cluster-scoped kinds. */
  readonly namespace: string;
  /** `""` if it has yet to be generated, which happens between mutation and validation. */
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
  /** Calls `end` when the write is stored or has failed, before the client receives the response. */
  whenEnded(end: () => void): void;
  /** Adds a warning to the response. */
  warn(text: string): void;
  /** Adds an annotation to the request's audit event. Default: there is no audit log. */
  annotate?(key: string, value: string): void;
  /** Prunes and defaults an object that a step has replaced. Default: unchanged. */
  normalize?(object: KubernetesObject): Promise<KubernetesObject>;
}

/** A kind of write: what decides whether a step can concern it. */
export type AdmissionTarget = Pick<AdmissionRequest, "operation" | "resource" | "subresource">;

/**
 * One admission rule. `mutate` runs first, for all steps in order, and returns whether it changed `object`; `validate` sees the object
 * to store and must not change it. Either rejects the write by throwing a `StatusError`. A step that has nothing to wait for returns a
 * plain value, which costs the write no turn of the microtask queue.
 */
export interface AdmissionStep {
  readonly name: string;
  /**
   * Whether the step can concern writes of this kind. The answer is remembered for as long as the resource is served, so that it must not
   * depend on anything else. Default: it concerns all.
   */
  appliesTo?(target: AdmissionTarget): boolean;
  mutate?(request: AdmissionRequest): boolean | Promise<boolean>;
  /** Instead of `mutate`, for a step that remembers what it did in the first round. Undefined: it has nothing to do. */
  beginMutation?(request: AdmissionRequest): Mutation | undefined;
  validate?(request: AdmissionRequest): void | Promise<void>;
  /** As `validate`, but after the object has passed validation. */
  review?(request: AdmissionRequest): void | Promise<void>;
}

/** The mutation of one request by one step. */
export interface Mutation {
  run(isReinvocation: boolean): MutationResult | Promise<MutationResult>;
}

/** What a mutation did. */
export interface MutationResult {
  readonly isChanged: boolean;
  /** Whether all steps must run once more, because they have not seen this change. */
  readonly needsReinvocation: boolean;
}

/** The admission steps in order. Each function returns a promise only if a step does. */
export interface AdmissionChain {
  /** Returns whether a step changed the object, which must then be defaulted and validated again. */
  mutate(request: AdmissionRequest): boolean | Promise<boolean>;
  validate(request: AdmissionRequest): void | Promise<void>;
  review(request: AdmissionRequest): void | Promise<void>;
}

/** Creates a chain that runs `steps` in order and stops at the first rejection. Mutating steps run at most twice. */
export function createAdmissionChain(steps: readonly AdmissionStep[]): AdmissionChain {
  return new StepChain(steps);
}

/** The steps that concern one kind of write, by phase. */
interface AdmissionPlan {
  readonly mutating: readonly AdmissionStep[];
  readonly validating: readonly AdmissionStep[];
  readonly reviewing: readonly AdmissionStep[];
}

class StepChain implements AdmissionChain {
  readonly #steps: readonly AdmissionStep[];
  /** By resource, operation and subresource. A resource that is no longer served takes its plans with it. */
  readonly #plans = new WeakMap<ServedResource, Map<string, Map<string, AdmissionPlan>>>();

  constructor(steps: readonly AdmissionStep[]) {
    this.#steps = steps;
  }

  mutate(request: AdmissionRequest): boolean | Promise<boolean> {
    const mutations: Mutation[] = [];
    for (const step of this.#planOf(request).mutating) {
      const mutation = step.beginMutation === undefined ? simpleMutation(step, request) : step.beginMutation(request);
      if (mutation !== undefined) mutations.push(mutation);
    }
    if (mutations.length === 0) return false;
    const first = runRound(mutations, false);
    if (!(first instanceof Promise) && !first.needsReinvocation) return first.isChanged;
    return finishMutation(mutations, first);
  }

  validate(request: AdmissionRequest): void | Promise<void> {
    return runAll(this.#planOf(request).validating, (step) => step.validate?.(request));
  }

  review(request: AdmissionRequest): void | Promise<void> {
    return runAll(this.#planOf(request).reviewing, (step) => step.review?.(request));
  }

  #planOf({ operation, resource, subresource }: AdmissionRequest): AdmissionPlan {
    let byOperation = this.#plans.get(resource);
    if (byOperation === undefined) this.#plans.set(resource, (byOperation = new Map()));
    let bySubresource = byOperation.get(operation);
    if (bySubresource === undefined) byOperation.set(operation, (bySubresource = new Map()));
    let plan = bySubresource.get(subresource);
    if (plan === undefined) {
      plan = planFor(this.#steps, { operation, resource, subresource });
      bySubresource.set(subresource, plan);
    }
    return plan;
  }
}

function planFor(steps: readonly AdmissionStep[], target: AdmissionTarget): AdmissionPlan {
  const concerned = steps.filter((step) => step.appliesTo?.(target) ?? true);
  return {
    mutating: concerned.filter((step) => step.mutate !== undefined || step.beginMutation !== undefined),
    validating: concerned.filter((step) => step.validate !== undefined),
    reviewing: concerned.filter((step) => step.review !== undefined),
  };
}

/** Runs steps in order. Waits only for those that return a promise. */
function runAll(
  steps: readonly AdmissionStep[],
  run: (step: AdmissionStep) => void | Promise<void>,
  start = 0,
): void | Promise<void> {
  for (let index = start; index < steps.length; index++) {
    const step = steps[index];
    const result = step === undefined ? undefined : run(step);
    if (result instanceof Promise) return result.then(() => runAll(steps, run, index + 1));
  }
}

const unchanged: MutationResult = { isChanged: false, needsReinvocation: false };
const changed: MutationResult = { isChanged: true, needsReinvocation: false };

function simpleMutation(step: AdmissionStep, request: AdmissionRequest): Mutation {
  return {
    run: () => {
      const result = step.mutate?.(request);
      if (result instanceof Promise) return result.then((isChanged) => (isChanged ? changed : unchanged));
      return result === true ? changed : unchanged;
    },
  };
}

/** Runs the mutations in order, from `start` on. Waits only for those that return a promise. */
function runRound(
  mutations: readonly Mutation[],
  isReinvocation: boolean,
  before = unchanged,
  start = 0,
): MutationResult | Promise<MutationResult> {
  let total = before;
  for (let index = start; index < mutations.length; index++) {
    const result = mutations[index]?.run(isReinvocation) ?? unchanged;
    if (result instanceof Promise) {
      const sum = total;
      return result.then((own) => runRound(mutations, isReinvocation, combined(sum, own), index + 1));
    }
    total = combined(total, result);
  }
  return total;
}

function combined(a: MutationResult, b: MutationResult): MutationResult {
  if (b === unchanged) return a;
  return { isChanged: a.isChanged || b.isChanged, needsReinvocation: a.needsReinvocation || b.needsReinvocation };
}

/** The rest of a mutation that waits: the end of the first round, and the second one if it is needed. */
async function finishMutation(
  mutations: readonly Mutation[],
  firstRound: MutationResult | Promise<MutationResult>,
): Promise<boolean> {
  const first = await firstRound;
  if (!first.needsReinvocation) return first.isChanged;
  await runRound(mutations, true);
  return true;
}
