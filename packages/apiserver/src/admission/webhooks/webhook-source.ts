import { type Store, storageKey, type StoredObject, type StoreWatch } from "../../storage/store.ts";
import { type Webhook, webhooksOf } from "./webhook.ts";

const group = "admissionregistration.k8s.io";

/** The current webhooks of one type, in the order in which they are called: by name of the configuration, then as listed. */
export class WebhookSource {
  readonly #store: Pick<Store, "list">;
  readonly #prefix: string;
  readonly #watch: StoreWatch;
  #current: readonly Webhook[] | undefined;
  /** Parsed configurations, which keep their compiled conditions while others change. */
  #parsed: ReadonlyMap<StoredObject, readonly Webhook[]> = new Map();

  constructor(
    store: Pick<Store, "list" | "watch" | "revision">,
    plural: "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
  ) {
    this.#store = store;
    this.#prefix = storageKey({ group, plural }, "", "");
    this.#watch = store.watch(this.#prefix, store.revision, () => (this.#current = undefined));
  }

  webhooks(): readonly Webhook[] {
    this.#current ??= this.#read();
    return this.#current;
  }

  close(): void {
    this.#watch.close();
  }

  #read(): readonly Webhook[] {
    // Keys are in the order of names.
    const { items } = this.#store.list(this.#prefix);
    this.#parsed = new Map(items.map((stored) => [stored, this.#parsed.get(stored) ?? webhooksOf(stored.object)]));
    return [...this.#parsed.values()].flat();
  }
}
