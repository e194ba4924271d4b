import { podReferences } from "@keelson/api-machinery/kinds";
import { type Store, type StoredObject, storageKey } from "../../storage/store.ts";

const prefix = "/pods/";

/** A resource that nodes may read for their Pods. */
export type ReferencedPlural = "configmaps" | "secrets" | "persistentvolumeclaims" | "serviceaccounts";

interface BoundPod {
  readonly uid: string;
  readonly node: string;
  /** `secrets/namespace/name`. */
  readonly references: readonly string[];
}

/**
 * An index of the Pods of each node and the objects they reference, kept current by a watch of the store:
 *
 *     "node-1" -> "secrets/default/password" -> 2 Pods
 *
 * The references and the node of a Pod are immutable, so each Pod is read once.
 */
export class NodeIndex {
  readonly #store: Pick<Store, "get">;
  readonly #pods = new Map<string, BoundPod>();
  readonly #references = new Map<string, Map<string, number>>();
  readonly #watch: { close(): void };

  /** Lists the store, then watches it until `close`. */
  constructor(store: Pick<Store, "list" | "watch" | "get">) {
    this.#store = store;
    const page = store.list(prefix);
    for (const stored of page.items) this.#put(stored);
    this.#watch = store.watch(prefix, page.revision, (events) => {
      for (const event of events) {
        if (event.type === "put") this.#put(event.object);
        else this.#remove(event.object.key);
      }
    });
  }

  /** Whether a Pod is bound to a node. */
  hasPod(node: string, namespace: string, name: string): boolean {
    return this.#pods.get(storageKey({ group: "", plural: "pods" }, namespace, name))?.node === node;
  }

  /** The uid of a Pod that is bound to a node and runs as a service account; undefined otherwise. */
  podOfAccount(node: string, namespace: string, name: string, account: string): string | undefined {
    const pod = this.#pods.get(storageKey({ group: "", plural: "pods" }, namespace, name));
    const isOf = pod?.node === node && pod.references.includes(keyOf("serviceaccounts", namespace, account));
    return isOf ? pod.uid : undefined;
  }

  /** Whether a Pod of a node references an object. */
  isReferenced(node: string, plural: ReferencedPlural, namespace: string, name: string): boolean {
    return this.#references.get(node)?.has(keyOf(plural, namespace, name)) === true;
  }

  /** Whether a PersistentVolume is bound to a claim that a Pod of a node references. */
  isVolumeReferenced(node: string, name: string): boolean {
    const volume = this.#store.get(storageKey({ group: "", plural: "persistentvolumes" }, "", name))?.object as
      | { readonly spec?: { readonly claimRef?: { readonly namespace?: string; readonly name?: string } } }
      | undefined;
    const { namespace = "", name: claim = "" } = volume?.spec?.claimRef ?? {};
    return claim !== "" && this.isReferenced(node, "persistentvolumeclaims", namespace, claim);
  }

  close(): void {
    this.#watch.close();
  }

  #put({ key, object }: StoredObject): void {
    const known = this.#pods.get(key);
    if (known !== undefined && known.uid === object.metadata.uid) return;
    if (known !== undefined) this.#remove(key);
    const { spec } = object as { readonly spec?: { readonly nodeName?: string } };
    const { nodeName: node } = spec ?? {};
    if (node === undefined || node === "") return;
    const { namespace = "", uid = "" } = object.metadata;
    const { configMaps, secrets, claims, serviceAccount } = podReferences({ metadata: object.metadata, spec });
    const references = [
      ...[...configMaps].map((name) => keyOf("configmaps", namespace, name)),
      ...[...secrets].map((name) => keyOf("secrets", namespace, name)),
      ...[...claims].map((name) => keyOf("persistentvolumeclaims", namespace, name)),
      // A mirror pod, which the node itself creates, gives no access to a service account.
      ...(object.metadata.annotations?.["kubernetes.io/config.mirror"] === undefined
        ? [keyOf("serviceaccounts", namespace, serviceAccount)]
        : []),
    ];
    this.#pods.set(key, { uid, node, references });
    let counts = this.#references.get(node);
    if (counts === undefined) this.#references.set(node, (counts = new Map()));
    for (const reference of references) counts.set(reference, (counts.get(reference) ?? 0) + 1);
  }

  #remove(key: string): void {
    const pod = this.#pods.get(key);
    if (pod === undefined) return;
    this.#pods.delete(key);
    const counts = this.#references.get(pod.node);
    for (const reference of pod.references) {
      const left = (counts?.get(reference) ?? 0) - 1;
      if (left > 0) counts?.set(reference, left);
      else counts?.delete(reference);
    }
    if (counts?.size === 0) this.#references.delete(pod.node);
  }
}

function keyOf(plural: ReferencedPlural, namespace: string, name: string): string {
  return `${plural}/${namespace}/${name}`;
}
