import { isJsonObject } from "@keelson/api-machinery";
import { forbidden, notFound } from "../endpoints/errors.ts";
import { type Store, storageKey } from "../storage/store.ts";
import type { AdmissionStep } from "./admission.ts";

const namespaces = { group: "", plural: "namespaces" };
const undeletable = new Set(["default", "kube-system", "kube-public"]);

/** Objects are created only in existing namespaces that are not terminating; system namespaces cannot be deleted. */
export function namespaceLifecycle(store: Pick<Store, "get">): AdmissionStep {
  return {
    name: "NamespaceLifecycle",
    appliesTo: ({ operation, resource, subresource }) =>
      (operation === "DELETE" && resource.group === "" && resource.plural === "namespaces") ||
      // A review of a user's permissions is not stored, and its namespace need not exist.
      (operation === "CREATE" &&
        resource.scope === "Namespaced" &&
        subresource === "" &&
        resource.group !== "authorization.k8s.io"),
    // Before other mutating steps, so that webhooks are not called for a namespace that does not exist.
    mutate({ operation, resource, namespace, name }) {
      if (operation === "DELETE") {
        if (undeletable.has(name)) throw forbidden(resource, name, "this namespace may not be deleted");
        return false;
      }
      const stored = store.get(storageKey(namespaces, "", namespace));
      if (stored === undefined) throw notFound(namespaces, namespace);
      const { metadata } = stored.object;
      const status: unknown = Reflect.get(stored.object, "status");
      const isTerminating =
        metadata.deletionTimestamp !== undefined || (isJsonObject(status) && status["phase"] === "Terminating");
      if (!isTerminating) return false;
      const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
      throw forbidden(resource, name, why, [
        {
          reason: "NamespaceTerminating",
          field: "metadata.namespace",
          message: `namespace ${namespace} is being terminated`,
        },
      ]);
    },
  };
}
