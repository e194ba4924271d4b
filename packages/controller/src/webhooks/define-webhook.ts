import { draft, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { createJsonPatch } from "@keelson/api-machinery/patch";
import { invalidError } from "@keelson/api-machinery/validation";
import type { AdmissionRequest, AdmissionResult, Operation } from "./admission-types.ts";
import type { WebhookContext } from "./webhook-context.ts";
import type { KindWebhooks, ValidationResult, Validator, WebhookDefinition, WebhookOptions } from "./webhook-definition.ts";

/**
 * Declares the admission webhooks of a kind: a mutating one if there is `default` or `mutateRequest`, and a validating one if there is
 * `validate` or `validateRequest`. `createWebhooks` serves them.
 *
 * **Errors**: a `TypeError` if there is nothing to serve, or if handlers and functions of the same type are combined.
 *
 * **Example**
 *
 * ```ts
 * const lampWebhooks = defineWebhook({
 *   for: Lamp,
 *   default(lamp) {
 *     lamp.spec.color ??= "white";
 *   },
 *   validate: {
 *     update: (lamp, old) => (lamp.spec.watts < old.spec.watts ? [forbiddenCause("spec.watts", "cannot shrink")] : undefined),
 *   },
 * });
 * ```
 */
export function defineWebhook<T extends KubernetesObject>(options: WebhookOptions<T>): KindWebhooks {
  const webhooks = [mutatingWebhook(options), validatingWebhook(options)].filter((each) => each !== undefined);
  if (webhooks.length === 0) {
    throw new TypeError(`webhook for ${options.for.kind}: default, validate, mutateRequest or validateRequest must be set`);
  }
  return { webhooks };
}

function mutatingWebhook<T extends KubernetesObject>(options: WebhookOptions<T>): WebhookDefinition | undefined {
  const { mutateRequest } = options;
  const setDefaults = options.default?.bind(options);
  if (mutateRequest !== undefined && setDefaults !== undefined) {
    throw new TypeError(`webhook for ${options.for.kind}: default and mutateRequest cannot both be set`);
  }
  const handle = setDefaults === undefined ? mutateRequest?.bind(options) : defaulter(setDefaults);
  return handle === undefined ? undefined : definition(options, "mutating", ["CREATE", "UPDATE"], handle);
}

function validatingWebhook<T extends KubernetesObject>(options: WebhookOptions<T>): WebhookDefinition | undefined {
  const { validate, validateRequest } = options;
  if (validate !== undefined && validateRequest !== undefined) {
    throw new TypeError(`webhook for ${options.for.kind}: validate and validateRequest cannot both be set`);
  }
  const handle = validate === undefined ? validateRequest?.bind(options) : validator(options.for, validate);
  const functions = { CREATE: validate?.create, UPDATE: validate?.update, DELETE: validate?.delete } as const;
  const operations = (["CREATE", "UPDATE", "DELETE"] as const).filter((each) => functions[each] !== undefined);
  return handle === undefined
    ? undefined
    : definition(options, "validating", operations.length === 0 ? ["CREATE", "UPDATE"] : operations, handle);
}

type Handle<T extends KubernetesObject> = (
  request: AdmissionRequest<T>,
  context: WebhookContext<T>,
) => AdmissionResult | Promise<AdmissionResult>;

function definition<T extends KubernetesObject>(
  options: WebhookOptions<T>,
  type: WebhookDefinition["type"],
  operations: readonly Operation[],
  handle: Handle<T>,
): WebhookDefinition {
  const { for: kind, name = `${kind.plural}.${kind.group === "" ? "core" : kind.group}` } = options;
  const { group, version, plural, scope } = kind;
  const [verb, prefix] = type === "mutating" ? ["mutate", "default"] : ["validate", "validate"];
  const { failurePolicy, matchPolicy, namespaceSelector, objectSelector, matchConditions } = options;
  const { timeoutSeconds, sideEffects, reinvocationPolicy } = options;
  const policies = {
    failurePolicy,
    matchPolicy,
    namespaceSelector,
    objectSelector,
    matchConditions,
    timeoutSeconds,
    sideEffects,
  };
  const own = { operations, apiGroups: [group], apiVersions: [version], resources: [plural], scope };
  return {
    type,
    name: `${prefix}.${name}`,
    path: `/${verb}-${group.replaceAll(".", "-")}-${version}-${kind.kind.toLowerCase()}`,
    rules: options.rules ?? [own],
    policies: Object.fromEntries(
      Object.entries(type === "mutating" ? { ...policies, reinvocationPolicy } : policies).filter(
        ([, value]) => value !== undefined,
      ),
    ),
    // The rules select the kind, and `Equivalent` converts to its version.
    handle: async (request, context) => handle(request as AdmissionRequest<T>, context as WebhookContext<T>),
  };
}

function defaulter<T extends KubernetesObject>(
  setDefaults: (object: T, context: WebhookContext<T>) => void | Promise<void>,
): Handle<T> {
  return async ({ object }, context) => {
    if (object === undefined) return { allowed: true };
    const changed = draft(object) as T;
    await setDefaults(changed, context);
    return { allowed: true, patch: createJsonPatch(object, changed) };
  };
}

function validator<T extends KubernetesObject>(kind: ResourceType<T>, validate: Validator<T>): Handle<T> {
  return async (request, context) => {
    const causes = await validateOperation(request, context, validate);
    if (causes === undefined || causes.length === 0) return { allowed: true };
    throw invalidError(kind, request.name, causes);
  };
}

async function validateOperation<T extends KubernetesObject>(
  { operation, object, oldObject }: AdmissionRequest<T>,
  context: WebhookContext<T>,
  validate: Validator<T>,
): Promise<ValidationResult> {
  if (operation === "CREATE" && object !== undefined) return validate.create?.(object, context);
  if (operation === "DELETE" && oldObject !== undefined) return validate.delete?.(oldObject, context);
  if (operation === "UPDATE" && object !== undefined && oldObject !== undefined) {
    return validate.update?.(object, oldObject, context);
  }
  return undefined;
}
