import type { DeepReadonly, JsonObject, KubernetesObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { forbidden } from "../endpoints/errors.ts";
import { listAt, objectAt, textAt } from "../registry/object-fields.ts";
import { type Store, storageKey } from "../storage/store.ts";
import type { AdmissionStep } from "./admission.ts";

const accounts = { group: "", plural: "serviceaccounts" };
const namespaces = { group: "", plural: "namespaces" };
/** The account of Pods that name none. */
const defaultAccount = "default";
/** How long a Pod waits for the account `default`, which a controller makes in each new namespace. */
const patienceMs = 1_500;

/**
 * Pods run as a service account that is there, and pull images with its secrets where they name none of their own, as with the plugin
 * `ServiceAccount` of kube-apiserver. A Pod of a new namespace waits up to 1.5 s for the account `default`; others are refused at once.
 * The volume with the token is the node's to add, which adds it whatever the spec says.
 */
export function serviceAccounts(store: Pick<Store, "get" | "watch" | "revision">, clock: Clock): AdmissionStep {
  return {
    name: "ServiceAccount",
    async mutate({ operation, resource, subresource, namespace, name, object }) {
      const spec = objectAt(object, "spec");
      if (operation !== "CREATE" || resource.group !== "" || resource.plural !== "pods" || subresource !== "") return false;
      if (spec === undefined || !isAlive(store, namespace)) return false;
      const wanted = textAt(spec, "serviceAccountName") || defaultAccount;
      const key = storageKey(accounts, namespace, wanted);
      const account = store.get(key)?.object ?? (wanted === defaultAccount ? await comingObject(store, clock, key) : undefined);
      if (account === undefined) {
        const why = `error looking up service account ${namespace}/${wanted}: serviceaccount ${JSON.stringify(wanted)} not found`;
        throw forbidden(resource, name, why);
      }
      return takePullSecrets(spec, account);
    },
  };
}

/** Whether Pods may be made in a namespace at all: where not, the step for namespaces says so. */
function isAlive(store: Pick<Store, "get">, namespace: string): boolean {
  const found = store.get(storageKey(namespaces, "", namespace));
  return found !== undefined && found.object.metadata.deletionTimestamp === undefined;
}

function takePullSecrets(spec: JsonObject, account: DeepReadonly<KubernetesObject>): boolean {
  const secrets = listAt(account, "imagePullSecrets");
  if (secrets.length === 0 || listAt(spec, "imagePullSecrets").length > 0) return false;
  spec["imagePullSecrets"] = structuredClone(secrets) as JsonObject[];
  return true;
}

/** An object that is to come soon; undefined where it does not. */
function comingObject(
  store: Pick<Store, "watch" | "revision">,
  clock: Clock,
  key: string,
): Promise<DeepReadonly<KubernetesObject> | undefined> {
  return new Promise((resolve) => {
    const end = (object?: DeepReadonly<KubernetesObject>): void => {
      watch.close();
      timer.cancel();
      resolve(object);
    };
    const watch = store.watch(key, store.revision, (events) => {
      const made = events.find((event) => event.type === "put" && event.object.key === key);
      if (made !== undefined) end(made.object.object);
    });
    const timer = clock.setTimer(patienceMs, () => end());
  });
}
