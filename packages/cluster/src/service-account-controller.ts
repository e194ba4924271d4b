import { defineController, type ControllerDefinition } from "@keelson/controller";
import { type KubernetesObject, type ResourceType, isAlreadyExists, isNotFound, isStatusError } from "@keelson/api-machinery";

const namespaces: ResourceType = { group: "", version: "v1", kind: "Namespace", plural: "namespaces", scope: "Cluster" };
const serviceAccounts: ResourceType<KubernetesObject> = {
  group: "",
  version: "v1",
  kind: "ServiceAccount",
  plural: "serviceaccounts",
  scope: "Namespaced",
};

/** Keeps a ServiceAccount `default` in every namespace, as kube-controller-manager does. */
export const serviceAccountController: ControllerDefinition = defineController({
  name: "serviceaccount",
  for: namespaces,
  watches: [
    {
      type: serviceAccounts,
      map: (account) =>
        account.metadata.name === "default" && account.metadata.namespace ? [{ name: account.metadata.namespace }] : [],
      predicates: [(change) => change.type === "delete"],
    },
  ],
  async reconcile({ name }, { cache, client, signal }) {
    const namespace = cache.get(namespaces, { name });
    if (namespace === undefined || namespace.metadata.deletionTimestamp !== undefined) return;
    if (cache.get(serviceAccounts, { namespace: name, name: "default" }) !== undefined) return;
    try {
      await client.create(serviceAccounts, { metadata: { name: "default", namespace: name } }, { signal });
    } catch (error) {
      // Made by somebody else, or the namespace went meanwhile: either way there is nothing left to do.
      if (!isAlreadyExists(error) && !isNotFound(error) && !isStatusError(error, "Forbidden")) throw error;
    }
  },
});
