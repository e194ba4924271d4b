import { type DeepReadonly, type KubernetesObject, statusError, type StatusReason } from "@keelson/api-machinery";
import { toCel } from "@keelson/api-machinery/server";
import { qualifiedResource } from "../../endpoints/errors.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import type { AdmissionRequest, AdmissionStep, AdmissionTarget } from "../admission.ts";
import { celVariables } from "../matching/cel-variables.ts";
import { nameOf, requestNamespace } from "../matching/selectors.ts";
import { versionedObjects } from "../matching/versioned-objects.ts";
import { isAdmissionConfiguration } from "../webhooks/invocation.ts";
import { matchResources } from "./match-resources.ts";
import { PolicyBindings } from "./policy-bindings.ts";
import { missingParams, paramsOf, type PolicyContext } from "./policy-params.ts";
import { type PolicyFailure, PolicyProgram } from "./policy-program.ts";

const group = "admissionregistration.k8s.io";
const policyKind = { group, plural: "validatingadmissionpolicies" };

/** A policy with a binding that selects the request. */
interface Bound {
  readonly policy: DeepReadonly<KubernetesObject>;
  readonly policyRevision: number;
  readonly binding: DeepReadonly<KubernetesObject>;
  /** The resource by which the request matched. */
  readonly resource: ServedResource;
}

/**
 * ValidatingAdmissionPolicies (KEP-3488) with bindings and parameters. The action `Audit` has no effect, because there is no audit log.
 */
export class ValidatingPolicies implements AdmissionStep {
  readonly name = "ValidatingAdmissionPolicy";
  readonly #context: PolicyContext;
  readonly #bindings: PolicyBindings;
  /** Compiled policies by name. */
  readonly #programs = new Map<string, { readonly revision: number; readonly program: PolicyProgram }>();

  constructor(context: PolicyContext & { readonly store: Pick<Store, "watch" | "revision"> }) {
    this.#context = context;
    this.#bindings = new PolicyBindings(context.store, "validatingadmissionpolicybindings");
  }

  close(): void {
    this.#bindings.close();
  }

  /** As in kube-apiserver, policies do not apply to the configuration of admission itself. */
  appliesTo(target: AdmissionTarget): boolean {
    return !isAdmissionConfiguration(target);
  }

  review(request: AdmissionRequest): void | Promise<void> {
    const bindings = this.#bindings.list();
    if (bindings.length > 0) return this.#review(request, bindings);
  }

  async #review(request: AdmissionRequest, bindings: readonly DeepReadonly<KubernetesObject>[]): Promise<void> {
    const { store } = this.#context;
    for (const binding of bindings) {
      const stored = store.get(storageKey(policyKind, "", textAt(binding, "spec", "policyName")));
      if (stored === undefined) continue;
      const policy = stored.object;
      const resource = matchResources(valueAt(policy, "spec", "matchConstraints"), request, this.#context);
      if (resource === undefined) continue;
      const match = valueAt(binding, "spec", "matchResources");
      if (match !== undefined && matchResources(match, request, this.#context) === undefined) continue;
      await this.#enforce(request, { policy, policyRevision: stored.revision, binding, resource });
    }
  }

  async #enforce(request: AdmissionRequest, bound: Bound): Promise<void> {
    for (const failure of await this.#failures(request, bound)) {
      const actions = listAt(bound.binding, "spec", "validationActions");
      const names = `'${bound.policy.metadata.name ?? ""}' with binding '${bound.binding.metadata.name ?? ""}'`;
      if (actions.includes("Deny")) throw denied(request, `ValidatingAdmissionPolicy ${names} denied request`, failure);
      if (actions.includes("Warn")) {
        request.warn(`Validation failed for ValidatingAdmissionPolicy ${names}: ${failure.message}`);
      }
    }
  }

  async #failures(
    request: AdmissionRequest,
    { policy, policyRevision, binding, resource }: Bound,
  ): Promise<readonly PolicyFailure[]> {
    const params = paramsOf(request, policy, binding, this.#context);
    if (params === "missing") return [{ message: `failed to configure binding: ${missingParams}`, reason: "" }];
    const program = this.#programOf(policy, policyRevision);
    const { store, authorizer, resources } = this.#context;
    const objects = await versionedObjects(request, resource, resources);
    const namespace = requestNamespace(store, request);
    const values = celVariables({ request, resource, ...objects, namespace, authorizer });
    return params.flatMap((each) => program.evaluate({ ...values, params: toCel(each) }));
  }

  #programOf(policy: DeepReadonly<KubernetesObject>, revision: number): PolicyProgram {
    const name = policy.metadata.name ?? "";
    const cached = this.#programs.get(name);
    if (cached?.revision === revision) return cached.program;
    const program = new PolicyProgram(policy);
    this.#programs.set(name, { revision, program });
    return program;
  }
}

function denied(request: AdmissionRequest, subject: string, { message, reason }: PolicyFailure): Error {
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
