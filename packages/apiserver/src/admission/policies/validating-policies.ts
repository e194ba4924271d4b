import { type DeepReadonly, isJsonObject, type KubernetesObject, statusError, type StatusReason } from "@keelson/api-machinery";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import { toCel } from "@keelson/api-machinery/server";
import { qualifiedResource } from "../../endpoints/errors.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import type { ResourceTable } from "../../registry/served-resource.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import type { AdmissionRequest, AdmissionStep } from "../admission.ts";
import { matchesResources } from "./match-resources.ts";
import { type PolicyFailure, PolicyProgram } from "./policy-program.ts";

const group = "admissionregistration.k8s.io";
const policyKind = { group, plural: "validatingadmissionpolicies" };
const bindingKind = { group, plural: "validatingadmissionpolicybindings" };
const namespaces = { group: "", plural: "namespaces" };

/** A policy with a binding that selects the request. */
interface Bound {
  readonly policy: DeepReadonly<KubernetesObject>;
  readonly policyRevision: number;
  readonly binding: DeepReadonly<KubernetesObject>;
}

/** Parameters of a binding: none, several, or missing ones that deny the request. */
type Params = readonly (DeepReadonly<KubernetesObject> | undefined)[] | "missing";

/**
 * ValidatingAdmissionPolicies (KEP-3488) with bindings and parameters. The action `Audit` has no effect, because there is no audit log, and
 * expressions have no `authorizer`.
 */
export class ValidatingPolicies implements AdmissionStep {
  readonly name = "ValidatingAdmissionPolicy";
  readonly #store: Pick<Store, "get" | "list">;
  readonly #resources: Pick<ResourceTable, "byKind">;
  /** Compiled policies by name. */
  readonly #programs = new Map<string, { readonly revision: number; readonly program: PolicyProgram }>();

  constructor(store: Pick<Store, "get" | "list">, resources: Pick<ResourceTable, "byKind">) {
    this.#store = store;
    this.#resources = resources;
  }

  review(request: AdmissionRequest): void {
    const { resource } = request;
    // As in kube-apiserver, policies do not apply to the configuration of admission itself.
    if (resource.group === group) return;
    const { items } = this.#store.list(storageKey(bindingKind, "", ""));
    if (items.length === 0) return;
    const namespace =
      request.namespace === "" ? undefined : this.#store.get(storageKey(namespaces, "", request.namespace))?.object;
    for (const { object: binding } of items) {
      const stored = this.#store.get(storageKey(policyKind, "", textAt(binding, "spec", "policyName")));
      if (stored === undefined) continue;
      const policy = stored.object;
      if (!matchesResources(valueAt(policy, "spec", "matchConstraints"), request, namespace)) continue;
      const match = valueAt(binding, "spec", "matchResources");
      if (match !== undefined && !matchesResources(match, request, namespace)) continue;
      this.#enforce(request, { policy, policyRevision: stored.revision, binding }, namespace);
    }
  }

  #enforce(request: AdmissionRequest, bound: Bound, namespace: DeepReadonly<KubernetesObject> | undefined): void {
    for (const failure of this.#failures(request, bound, namespace)) {
      const actions = listAt(bound.binding, "spec", "validationActions");
      const names = `'${bound.policy.metadata.name ?? ""}' with binding '${bound.binding.metadata.name ?? ""}'`;
      if (actions.includes("Deny")) throw denied(request, `ValidatingAdmissionPolicy ${names} denied request`, failure);
      if (actions.includes("Warn")) {
        request.warn(`Validation failed for ValidatingAdmissionPolicy ${names}: ${failure.message}`);
      }
    }
  }

  #failures(
    request: AdmissionRequest,
    { policy, policyRevision, binding }: Bound,
    namespace: DeepReadonly<KubernetesObject> | undefined,
  ): readonly PolicyFailure[] {
    const params = this.#paramsOf(request, policy, binding);
    if (params === "missing") {
      const why = "no params found for policy binding with `Deny` parameterNotFoundAction";
      return [{ message: `failed to configure binding: ${why}`, reason: "" }];
    }
    const program = this.#programOf(policy, policyRevision);
    const values = variablesOf(request, namespace);
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

  #paramsOf(
    request: AdmissionRequest,
    policy: DeepReadonly<KubernetesObject>,
    binding: DeepReadonly<KubernetesObject>,
  ): Params {
    const kind = valueAt(policy, "spec", "paramKind");
    const ref = valueAt(binding, "spec", "paramRef");
    if (kind === undefined || ref === undefined) return [undefined];
    const found = this.#findParams(request, kind, ref);
    if (found.length > 0) return found;
    return textAt(ref, "parameterNotFoundAction") === "Allow" ? [] : "missing";
  }

  #findParams(request: AdmissionRequest, kind: unknown, ref: unknown): readonly DeepReadonly<KubernetesObject>[] {
    const parts = textAt(kind, "apiVersion").split("/");
    const [paramGroup, version] = parts.length === 1 ? ["", parts[0] ?? ""] : [parts[0] ?? "", parts[1] ?? ""];
    const resource = this.#resources.byKind(paramGroup, version, textAt(kind, "kind"));
    if (resource === undefined) return [];
    const namespace = resource.scope === "Namespaced" ? textAt(ref, "namespace") || request.namespace : "";
    const name = textAt(ref, "name");
    if (name !== "") {
      const stored = this.#store.get(storageKey(resource, namespace, name));
      return stored === undefined ? [] : [stored.object];
    }
    const selector = valueAt(ref, "selector");
    return this.#store
      .list(storageKey(resource, namespace, ""))
      .items.map(({ object }) => object)
      .filter(({ metadata }) => !isJsonObject(selector) || selectorFromObject(selector).matches(metadata.labels ?? {}));
  }
}

/** The variables of a policy's expressions, except `params` and `variables`. */
function variablesOf(
  request: AdmissionRequest,
  namespace: DeepReadonly<KubernetesObject> | undefined,
): Readonly<Record<string, unknown>> {
  const { operation, resource, subresource, object, oldObject, user, isDryRun } = request;
  const kind = { group: resource.group, version: resource.version, kind: resource.kind };
  const plural = { group: resource.group, version: resource.version, resource: resource.plural };
  return {
    object: toCel(object),
    oldObject: toCel(oldObject),
    namespaceObject: toCel(namespace),
    request: toCel({
      kind,
      resource: plural,
      subResource: subresource,
      requestKind: kind,
      requestResource: plural,
      requestSubResource: subresource,
      name: object?.metadata.name ?? request.name,
      namespace: request.namespace,
      operation,
      userInfo: { username: user.username, groups: user.groups, ...(user.uid === undefined ? {} : { uid: user.uid }) },
      dryRun: isDryRun,
    }),
  };
}

function denied(request: AdmissionRequest, subject: string, { message, reason }: PolicyFailure): Error {
  const { resource, object } = request;
  const name = object?.metadata.name ?? request.name;
  const text = `${subject}: ${message}`;
  const status: StatusReason = reason === "Forbidden" || reason === "RequestEntityTooLarge" ? reason : "Invalid";
  return statusError(status, `${qualifiedResource(resource)} ${JSON.stringify(name)} is forbidden: ${text}`, {
    ...(name === "" ? {} : { name }),
    ...(resource.group === "" ? {} : { group: resource.group }),
    kind: resource.plural,
    causes: [{ message: text }],
  });
}
