import { type DeepReadonly, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Authorizer } from "../../auth/rbac/rbac-authorizer.ts";
import { textAt, valueAt } from "../../registry/object-fields.ts";
import type { ResourceTable } from "../../registry/served-resource.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import type { AdmissionRequest } from "../admission.ts";

/** What policies take. */
export interface PolicyContext {
  readonly store: Pick<Store, "get" | "list">;
  readonly resources: Pick<ResourceTable, "byKind" | "get" | "list">;
  readonly authorizer: Pick<Authorizer, "authorize">;
}

type Param = DeepReadonly<KubernetesObject> | undefined;

/** Why a binding whose parameters are missing denies a request. */
export const missingParams = "no params found for policy binding with `Deny` parameterNotFoundAction";

/**
 * Finds the parameters with which a binding applies a policy: one undefined parameter for a policy without any, several for a selector.
 * `missing`: there are none, and the binding denies requests without them.
 */
export function paramsOf(
  request: AdmissionRequest,
  policy: DeepReadonly<KubernetesObject>,
  binding: DeepReadonly<KubernetesObject>,
  context: PolicyContext,
): readonly Param[] | "missing" {
  const kind = valueAt(policy, "spec", "paramKind");
  const ref = valueAt(binding, "spec", "paramRef");
  if (kind === undefined || ref === undefined) return [undefined];
  const found = findParams(request, kind, ref, context);
  if (found.length > 0) return found;
  return textAt(ref, "parameterNotFoundAction") === "Allow" ? [] : "missing";
}

function findParams(
  request: AdmissionRequest,
  kind: unknown,
  ref: unknown,
  { store, resources }: PolicyContext,
): readonly DeepReadonly<KubernetesObject>[] {
  const parts = textAt(kind, "apiVersion").split("/");
  const [group, version] = parts.length === 1 ? ["", parts[0] ?? ""] : [parts[0] ?? "", parts[1] ?? ""];
  const resource = resources.byKind(group, version, textAt(kind, "kind"));
  if (resource === undefined) return [];
  const namespace = resource.scope === "Namespaced" ? textAt(ref, "namespace") || request.namespace : "";
  const name = textAt(ref, "name");
  if (name !== "") {
    const stored = store.get(storageKey(resource, namespace, name));
    return stored === undefined ? [] : [stored.object];
  }
  const selector = valueAt(ref, "selector");
  return store
    .list(storageKey(resource, namespace, ""))
    .items.map(({ object }) => object)
    .filter(({ metadata }) => !isJsonObject(selector) || selectorFromObject(selector).matches(metadata.labels ?? {}));
}
