import {
  type DeepReadonly,
  draft,
  jsonEquals,
  type KubernetesObject,
  StatusError,
  type StatusReason,
} from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { toCel } from "@keelson/api-machinery/server";
import { forbidden } from "../../endpoints/errors.ts";
import { convertObject } from "../../endpoints/object/convert-object.ts";
import { builtinKindSchema } from "../../registry/builtin/builtin-schemas.ts";
import { textAt, valueAt } from "../../registry/object-fields.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { Store, StoredObject } from "../../storage/store.ts";
import type { AdmissionRequest, AdmissionStep, AdmissionTarget, Mutation, MutationResult } from "../admission.ts";
import { celVariables } from "../matching/cel-variables.ts";
import { nameOf, requestNamespace } from "../matching/selectors.ts";
import { versionedObjects } from "../matching/versioned-objects.ts";
import { Reinvocations } from "../reinvocations.ts";
import { isAdmissionConfiguration } from "../webhooks/invocation.ts";
import { CompiledPolicies } from "./compiled-policies.ts";
import { matchResources } from "./match-resources.ts";
import { MutationError, MutationProgram, type MutationStep } from "./mutation-program.ts";
import { PolicyBindings } from "./policy-bindings.ts";
import { missingParams, paramsOf, type PolicyContext } from "./policy-params.ts";

type Stored = DeepReadonly<KubernetesObject>;

/** A policy, a binding that selects the request, and one of the binding's parameters. */
interface Invocation {
  readonly policy: Stored;
  readonly program: MutationProgram;
  readonly binding: Stored;
  readonly param: Stored | undefined;
  /** The resource by which the request matched: expressions see objects in its version. */
  readonly resource: ServedResource;
}

/** A policy that could not be applied. */
interface PolicyFailure {
  readonly message: string;
  readonly reason: StatusReason;
}

/** MutatingAdmissionPolicies (KEP-3962) with bindings and parameters, by name of the policy and then of the binding. */
export class MutatingPolicies implements AdmissionStep {
  readonly name = "MutatingAdmissionPolicy";
  readonly #context: PolicyContext;
  readonly #bindings: PolicyBindings;
  readonly #policies: CompiledPolicies<MutationProgram>;

  constructor(context: PolicyContext & { readonly store: Pick<Store, "watch" | "revision"> }) {
    this.#context = context;
    this.#bindings = new PolicyBindings(context.store, "mutatingadmissionpolicybindings");
    this.#policies = new CompiledPolicies(context.store, "mutatingadmissionpolicies", (policy) => new MutationProgram(policy));
  }

  /** As in kube-apiserver, policies do not apply to the configuration of admission itself. */
  appliesTo(target: AdmissionTarget): boolean {
    return target.operation !== "DELETE" && !isAdmissionConfiguration(target);
  }

  beginMutation(request: AdmissionRequest): Mutation | undefined {
    const bindings = this.#bindings.list();
    if (bindings.length === 0) return undefined;
    return new PolicyMutation(this.#context, request, bindings, this.#policies);
  }

  close(): void {
    this.#bindings.close();
    this.#policies.close();
  }
}

class PolicyMutation implements Mutation {
  readonly #context: PolicyContext;
  readonly #request: AdmissionRequest;
  readonly #bindings: readonly Stored[];
  readonly #policies: Pick<CompiledPolicies<MutationProgram>, "get" | "programOf">;
  readonly #reinvocations = new Reinvocations();
  #failures: PolicyFailure[] = [];

  constructor(
    context: PolicyContext,
    request: AdmissionRequest,
    bindings: readonly Stored[],
    policies: Pick<CompiledPolicies<MutationProgram>, "get" | "programOf">,
  ) {
    this.#context = context;
    this.#request = request;
    this.#bindings = bindings;
    this.#policies = policies;
  }

  async run(isReinvocation: boolean): Promise<MutationResult> {
    this.#failures = [];
    this.#reinvocations.begin(isReinvocation, this.#request.object);
    let isChanged = false;
    // Policies are matched with the object as it is before the first of them.
    for (const invocation of this.#invocations()) {
      const hasChanged = await this.#invoke(invocation);
      isChanged ||= hasChanged;
    }
    this.#reinvocations.end(this.#request.object);
    const [first] = this.#failures;
    if (first !== undefined) throw denied(this.#request, first, this.#failures);
    return { isChanged, needsReinvocation: isChanged };
  }

  #invocations(): readonly Invocation[] {
    const names = new Set(this.#bindings.map((binding) => textAt(binding, "spec", "policyName")));
    return [...names].sort().flatMap((name) => {
      const stored = this.#policies.get(name);
      return stored === undefined ? [] : this.#invocationsOf(name, stored);
    });
  }

  #invocationsOf(name: string, stored: StoredObject): readonly Invocation[] {
    const policy = stored.object;
    const request = this.#request;
    const resource = matchResources(valueAt(policy, "spec", "matchConstraints"), request, this.#context);
    if (resource === undefined) return [];
    const program = this.#policies.programOf(stored);
    return this.#bindings
      .filter((binding) => textAt(binding, "spec", "policyName") === name)
      .flatMap((binding) => {
        const match = valueAt(binding, "spec", "matchResources");
        if (match !== undefined && matchResources(match, request, this.#context) === undefined) return [];
        const params = paramsOf(request, policy, binding, this.#context);
        if (params !== "missing") return params.map((param) => ({ policy, program, binding, param, resource }));
        this.#fail({ policy, program, binding }, `failed to configure binding: ${missingParams}`, "Forbidden");
        return [];
      });
  }

  /** Applies the mutations of a policy, and returns whether they changed the object. */
  async #invoke(invocation: Invocation): Promise<boolean> {
    const { program } = invocation;
    const matched = program.conditions.isEmpty
      ? { kind: "matched" as const }
      : program.conditions.evaluate(await this.#values(invocation));
    if (matched.kind === "failed") this.#fail(invocation, matched.message, "Invalid");
    if (matched.kind !== "matched") return false;
    const id = keyOf(invocation);
    if (!this.#reinvocations.includes(id)) return false;
    let isChanged = false;
    for (const step of program.steps) {
      const hasChanged = await this.#apply(invocation, step);
      isChanged ||= hasChanged;
    }
    if (isChanged) this.#reinvocations.changed();
    if (program.isReinvocable) this.#reinvocations.invoked(id);
    return isChanged;
  }

  async #apply(invocation: Invocation, step: MutationStep): Promise<boolean> {
    const { program, resource } = invocation;
    const request = this.#request;
    const { object } = await versionedObjects(request, resource, this.#context.resources);
    if (object === undefined) return false;
    try {
      const values = program.withVariables(await this.#values(invocation));
      const patched = step.apply(object, values, schemaOf(request, resource));
      if (jsonEquals(patched, object)) return false;
      const isView = request.kind !== undefined;
      const converted = isView ? patched : await convertObject(patched, resource, request.resource, this.#context.resources);
      const replacement = draft(converted);
      request.object = (await request.normalize?.(replacement)) ?? replacement;
      return true;
    } catch (error) {
      if (!(error instanceof MutationError)) throw error;
      this.#fail(invocation, error.message, "Invalid");
      return false;
    }
  }

  async #values({ resource, param }: Invocation): Promise<Readonly<Record<string, unknown>>> {
    const request = this.#request;
    const { store, authorizer, resources } = this.#context;
    const objects = await versionedObjects(request, resource, resources);
    const namespace = requestNamespace(store, request);
    return { ...celVariables({ request, resource, ...objects, namespace, authorizer }), params: toCel(param) };
  }

  #fail(
    { policy, program, binding }: Pick<Invocation, "policy" | "program" | "binding">,
    why: string,
    reason: StatusReason,
  ): void {
    if (program.ignoresFailures) return;
    const names = `policy '${policy.metadata.name ?? ""}' with binding '${binding.metadata.name ?? ""}'`;
    this.#failures.push({ message: `${names} denied request: ${why}`, reason });
  }
}

function keyOf({ policy, binding, param }: Invocation): string {
  return JSON.stringify([policy.metadata.name, binding.metadata.name, param?.metadata.namespace, param?.metadata.name]);
}

/** The schema of the object: that of a view such as Scale differs from its resource's. */
function schemaOf({ kind }: AdmissionRequest, resource: ServedResource): Schema {
  return kind === undefined ? resource.schema : (builtinKindSchema(kind.group, kind.version, kind.kind) ?? {});
}

/** 403 with the reason of the first failure, like kube-apiserver. */
function denied(
  request: AdmissionRequest,
  { message, reason }: PolicyFailure,
  failures: readonly PolicyFailure[],
): StatusError {
  const causes = failures.map((failure) => ({ message: failure.message }));
  const { status } = forbidden(request.resource, nameOf(request), message, causes);
  return new StatusError({ ...status, message, reason });
}
