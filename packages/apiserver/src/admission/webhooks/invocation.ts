import type { Authorizer } from "../../auth/rbac/rbac-authorizer.ts";
import { forbidden } from "../../endpoints/errors.ts";
import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import type { AdmissionRequest } from "../admission.ts";
import { celVariables } from "../matching/cel-variables.ts";
import { matchedResource } from "../matching/equivalent-resources.ts";
import { matchesNamespace, matchesObject, nameOf } from "../matching/selectors.ts";
import type { VersionedObjects } from "../matching/versioned-objects.ts";
import type { Webhook } from "./webhook.ts";

/** A webhook to call, and the resource by which the request matched: objects are sent in its version. */
export interface Invocation {
  readonly webhook: Webhook;
  readonly resource: ServedResource;
}

/** What decides whether to call webhooks. */
export interface InvocationContext {
  readonly store: Pick<Store, "get">;
  readonly resources: Pick<ResourceTable, "list">;
  readonly authorizer: Pick<Authorizer, "authorize">;
  /** Returns the objects of the request in the version of `resource`. */
  readonly versioned: (resource: ServedResource) => Promise<VersionedObjects>;
}

/**
 * Decides whether to call a webhook: selectors, rules, then match conditions, as in kube-apiserver. Undefined: it is not called.
 *
 * **Errors**: `Forbidden` if a match condition fails and the failure policy is `Fail`; `NotFound` if the namespace does not exist.
 */
export async function invocationOf(
  webhook: Webhook,
  request: AdmissionRequest,
  { store, resources, authorizer, versioned }: InvocationContext,
): Promise<Invocation | undefined> {
  const resource = matchedResource(webhook.rules, webhook.matchPolicy, request, resources);
  if (resource === undefined) return undefined;
  if (!matchesObject(webhook.objectSelector, request)) return undefined;
  if (!matchesNamespace(webhook.namespaceSelector, request, store)) return undefined;
  if (webhook.conditions.isEmpty) return { webhook, resource };
  const objects = await versioned(resource);
  const result = webhook.conditions.evaluate(celVariables({ request, resource, ...objects, authorizer }));
  if (result.kind === "failed") throw forbidden(request.resource, nameOf(request), result.message);
  return result.kind === "matched" ? { webhook, resource } : undefined;
}

const exemptKinds: ReadonlySet<string> = new Set([
  "mutatingwebhookconfigurations",
  "validatingwebhookconfigurations",
  "mutatingadmissionpolicies",
  "mutatingadmissionpolicybindings",
  "validatingadmissionpolicies",
  "validatingadmissionpolicybindings",
]);

/** Whether a request changes the configuration of admission itself, which webhooks and policies must not prevent. */
export function isAdmissionConfiguration({ resource }: Pick<AdmissionRequest, "resource">): boolean {
  return resource.group === "admissionregistration.k8s.io" && exemptKinds.has(resource.plural);
}
