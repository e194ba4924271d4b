import { isAlreadyExists, isNotFound, isStatusError } from "@keelson/api-machinery";
import { Namespace, ServiceAccount } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, watchOf } from "@keelson/controller";

/** Keeps a ServiceAccount `default` in every namespace, as kube-controller-manager does. */
export const serviceAccountController: ControllerDefinition = defineController({
  name: "serviceaccount",
  for: Namespace,
  watches: [
    watchOf(
      ServiceAccount,
      (account) =>
        account.metadata.name === "default" && account.metadata.namespace ? [{ name: account.metadata.namespace }] : [],
      [(change) => change.type === "delete"],
    ),
  ],
  async reconcile({ name }, { cache, client, signal }) {
    const namespace = cache.get(Namespace, { name });
    if (namespace === undefined || namespace.metadata.deletionTimestamp !== undefined) return;
    if (cache.get(ServiceAccount, { namespace: name, name: "default" }) !== undefined) return;
    try {
      await client.create(ServiceAccount, { metadata: { name: "default", namespace: name } }, { signal });
    } catch (error) {
      // Another writer created it, or the namespace was deleted: nothing is left to do.
      if (!isAlreadyExists(error) && !isNotFound(error) && !isStatusError(error, "Forbidden")) throw error;
    }
  },
});
