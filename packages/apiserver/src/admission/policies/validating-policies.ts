import { type DeepReadonly, type KubernetesObject, statusError, type StatusReason } from "@keelson/api-machinery";
import { toCel } from "@keelson/api-machinery/server";
import { qualifiedResource } from "../../endpoints/errors.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { Store, StoredObject } from "../../storage/store.ts";
import type { AdmissionRequest, AdmissionStep, AdmissionTarget } from "../admission.ts";
import { celVariables } from "../matching/cel-variables.ts";
import { nameOf, requestNamespace } from "../matching/selectors.ts";
import { versionedObjects } from "../matching/versioned-objects.ts";
import { isAdmissionConfiguration } from "../webhooks/invocation.ts";
import { CompiledPolicies } from "./compiled-policies.ts";
import { matchResources } from "./match-resources.ts";
import { PolicyBindings } from "./policy-bindings.ts";
import { missingParams, paramsOf, type PolicyContext } from "./policy-params.ts";
import { type PolicyFailure, PolicyProgram, type PolicyResult } from "./policy-program.ts";

/** A policy with a binding that selects the request. */
interface Bound {
  readonly policy: StoredObject;
  readonly binding: DeepReadonly<KubernetesObject>;
  /** The resource by which the request matched. */
  readonly resource: ServedResource;
}

/** What the policies of one request found. */
class Findings {
  readonly #request: AdmissionRequest;
  readonly #annotations = new Map<string, Set<string>>();
  /** Why the request is denied, first failure first. */
  readonly denials: { readonly subject: string; readonly failure: Pick<PolicyFailure, "message" | "reason"> }[] = [];

  constructor(request: AdmissionRequest) {
    this.#request = request;
  }

  /** Applies the actions of a binding to the results of its policy. */
  add({ policy, binding }: Bound, { failures, annotationErrors, annotations }: PolicyResult): void {
    const names = { policy: policy.object.metadata.name ?? "", binding: binding.metadata.name ?? "" };
    const subject = `ValidatingAdmissionPolicy '${names.policy}' with binding '${names.binding}'`;
    const actions = listAt(binding, "spec", "validationActions");
    for (const failure of failures) {
      if (actions.includes("Deny")) this.denials.push({ subject, failure });
      if (actions.includes("Audit")) this.#record(names, failure, actions);
      if (actions.includes("Warn")) this.#request.warn(`Validation failed for ${subject}: ${failure.message}`);
    }
    for (const message of annotationErrors) this.denials.push({ subject, failure: { message, reason: "" } });
    for (const { key, value } of annotations) {
      const full = `${names.policy}/${key}`;
      this.#annotations.set(full, (this.#annotations.get(full) ?? new Set()).add(value));
    }
  }

  /** Writes the policies' own annotations: the distinct values of several bindings are joined. */
  annotate(): void {
    for (const [key, values] of this.#annotations) this.#request.annotate?.(key, [...values].join(", "));
  }

  #record(
    { policy, binding }: { readonly policy: string; readonly binding: string },
    { index, message }: PolicyFailure,
    validationActions: readonly unknown[],
  ): void {
    const failure = { message, policy, binding, expressionIndex: index, validationActions };
    this.#request.annotate?.("validation.policy.admission.k8s.io/validation_failure", JSON.stringify([failure]));
  }
}

/** ValidatingAdmissionPolicies (KEP-3488) with bindings, parameters and audit annotations. */
export class ValidatingPolicies implements AdmissionStep {
  readonly name = "ValidatingAdmissionPolicy";
  readonly #context: PolicyContext;
  readonly #bindings: PolicyBindings;
  readonly #policies: CompiledPolicies<PolicyProgram>;

  constructor(context: PolicyContext & { readonly store: Pick<Store, "watch" | "revision"> }) {
    this.#context = context;
    this.#bindings = new PolicyBindings(context.store, "validatingadmissionpolicybindings");
    this.#policies = new CompiledPolicies(context.store, "validatingadmissionpolicies", (policy) => new PolicyProgram(policy));
  }

  close(): void {
    this.#bindings.close();
    this.#policies.close();
  }

  /** As in kube-apiserver, policies do not apply to the configuration of admission itself. */
  appliesTo(target: AdmissionTarget): boolean {
    return !isAdmissionConfiguration(target);
  }

  review(request: AdmissionRequest): void | Promise<void> {
    const bindings = this.#bindings.list();
    if (bindings.length > 0) return this.#review(request, bindings);
  }

  /** Evaluates all policies before the request is denied, so that its warnings and annotations are complete. */
  async #review(request: AdmissionRequest, bindings: readonly DeepReadonly<KubernetesObject>[]): Promise<void> {
    const findings = new Findings(request);
    for (const binding of bindings) {
      const policy = this.#policies.get(textAt(binding, "spec", "policyName"));
      if (policy === undefined) continue;
      const resource = matchResources(valueAt(policy.object, "spec", "matchConstraints"), request, this.#context);
      if (resource === undefined) continue;
      const match = valueAt(binding, "spec", "matchResources");
      if (match !== undefined && matchResources(match, request, this.#context) === undefined) continue;
      const bound = { policy, binding, resource };
      for (const result of await this.#results(request, bound)) findings.add(bound, result);
    }
    findings.annotate();
    const [first] = findings.denials;
    if (first !== undefined) throw denied(request, `${first.subject} denied request`, first.failure);
  }

  /** The results of a policy, one for each of its parameters. */
  async #results(request: AdmissionRequest, { policy, binding, resource }: Bound): Promise<readonly PolicyResult[]> {
    const params = paramsOf(request, policy.object, binding, this.#context);
    if (params === "missing") {
      const failure = { index: 0, message: `failed to configure binding: ${missingParams}`, reason: "" };
      return [{ failures: [failure], annotations: [], annotationErrors: [] }];
    }
    const program = this.#policies.programOf(policy);
    const { store, authorizer, resources } = this.#context;
    const objects = await versionedObjects(request, resource, resources);
    const namespace = requestNamespace(store, request);
    const values = celVariables({ request, resource, ...objects, namespace, authorizer });
    return params.map((each) => program.evaluate({ ...values, params: toCel(each) }));
  }
}

function denied(
  request: AdmissionRequest,
  subject: string,
  { message, reason }: Pick<PolicyFailure, "message" | "reason">,
): Error {
  const { resource } = request;
  const name = nameOf(request);
  const text = `${subject}: ${message}`;
  const status: StatusReason = reason === "Forbidden" || reason === "RequestEntityTooLarge" ? reason : "Invalid";
  return statusError(status, `${qualifiedResource(resource)} ${JSON.stringify(name)} is forbidden: ${text}`, {
    ...(name === "" ? {} : { name }),
    ...(resource.group === "" ? {} : { group: resource.group }),
    kind: resource.plural,
    causes: [{ message: text }],
  });
}
