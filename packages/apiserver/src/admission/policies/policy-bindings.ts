import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { type Store, storageKey, type StoreWatch } from "../../storage/store.ts";

/** The current bindings of one type of policy, by name. Reads the store only after a change, because every write asks for them. */
export class PolicyBindings {
  readonly #store: Pick<Store, "list">;
  readonly #prefix: string;
  readonly #watch: StoreWatch;
  #current: readonly DeepReadonly<KubernetesObject>[] | undefined;

  constructor(store: Pick<Store, "list" | "watch" | "revision">, plural: string) {
    this.#store = store;
    this.#prefix = storageKey({ group: "admissionregistration.k8s.io", plural }, "", "");
    this.#watch = store.watch(this.#prefix, store.revision, () => (this.#current = undefined));
  }

  list(): readonly DeepReadonly<KubernetesObject>[] {
    this.#current ??= this.#store.list(this.#prefix).items.map(({ object }) => object);
    return this.#current;
  }

  close(): void {
    this.#watch.close();
  }
}
