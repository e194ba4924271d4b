import type { DeepReadonly, JsonObject, KubernetesObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { forbidden } from "../endpoints/errors.ts";
import type { RandomSource } from "../endpoints/random-source.ts";
import { listAt, objectAt, textAt, valueAt } from "../registry/object-fields.ts";
import { type Store, storageKey } from "../storage/store.ts";
import type { AdmissionStep } from "./admission.ts";
import { addTokenVolume } from "./token-volume.ts";

const accounts = { group: "", plural: "serviceaccounts" };
const namespaces = { group: "", plural: "namespaces" };
/** The service account of Pods that do not name one. */
const defaultAccount = "default";
/** How long a Pod waits for the account `default`, which a controller creates in each new namespace. */
const defaultAccountTimeoutMs = 1_500;

/**
 * Pods run as an existing service account, and pull images with its secrets unless they name their own, as with the admission plugin
 * `ServiceAccount` of kube-apiserver. A Pod in a new namespace waits up to 1.5 s for the account `default`; others are rejected immediately.
 * Unless the Pod or its account opts out, all containers mount a volume with a token of the account.
 */
export function serviceAccounts(
  store: Pick<Store, "get" | "watch" | "revision">,
  clock: Clock,
  random: RandomSource,
): AdmissionStep {
  return {
    name: "ServiceAccount",
    appliesTo: ({ operation, resource, subresource }) =>
      operation === "CREATE" && resource.group === "" && resource.plural === "pods" && subresource === "",
    async mutate({ resource, namespace, name, object }) {
      const spec = objectAt(object, "spec");
      if (spec === undefined || !isAlive(store, namespace)) return false;
      const accountName = textAt(spec, "serviceAccountName") || defaultAccount;
      const key = storageKey(accounts, namespace, accountName);
      const account =
        store.get(key)?.object ?? (accountName === defaultAccount ? await awaitObject(store, clock, key) : undefined);
      if (account === undefined) {
        const why = `error looking up service account ${namespace}/${accountName}: serviceaccount ${JSON.stringify(accountName)} not found`;
        throw forbidden(resource, name, why);
      }
      const isMounted = mountsToken(spec, account) && addTokenVolume(spec, random);
      return addPullSecrets(spec, account) || isMounted;
    },
  };
}

/** Whether Pods can be created in a namespace. If not, `NamespaceLifecycle` reports it. */
function isAlive(store: Pick<Store, "get">, namespace: string): boolean {
  const found = store.get(storageKey(namespaces, "", namespace));
  return found !== undefined && found.object.metadata.deletionTimestamp === undefined;
}

function addPullSecrets(spec: JsonObject, account: DeepReadonly<KubernetesObject>): boolean {
  const secrets = listAt(account, "imagePullSecrets");
  if (secrets.length === 0 || listAt(spec, "imagePullSecrets").length > 0) return false;
  spec["imagePullSecrets"] = structuredClone(secrets) as JsonObject[];
  return true;
}

/** Whether a Pod mounts a token: as it says, else as its account says, else it does. */
function mountsToken(spec: JsonObject, account: DeepReadonly<KubernetesObject>): boolean {
  const field = "automountServiceAccountToken";
  return (valueAt(spec, field) ?? valueAt(account, field)) !== false;
}

/** Waits for an object to be created; undefined if it is not. */
function awaitObject(
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
      const created = events.find((event) => event.type === "put" && event.object.key === key);
      if (created !== undefined) end(created.object.object);
    });
    const timer = clock.setTimer(defaultAccountTimeoutMs, () => end());
  });
}
