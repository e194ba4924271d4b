import { ConfigMap, podReferences, Secret } from "@keelson/api-machinery/kinds";
import { Informer, type InformerOptions } from "@keelson/controller/informer";
import type { PodView } from "./pod-view.ts";

/** A followed ConfigMap or Secret, and the uids of the Pods that reference it. */
interface Followed {
  readonly users: Set<string>;
  readonly stop: AbortController;
}

/** The informer options that {@link PodSources} uses. */
export type SourceReader = Pick<InformerOptions, "client" | "clock" | "random" | "log">;

/** Follows the ConfigMaps and Secrets that the Pods of a node reference, each with its own watch, because a node may read no others. */
export class PodSources {
  readonly #reader: SourceReader;
  readonly #onChange: (uids: ReadonlySet<string>, isFirst: boolean) => void;
  readonly #followed = new Map<string, Followed>();
  readonly #running = new Set<Promise<void>>();

  /** `onChange` receives the uids of the Pods that reference an object when it is first listed and whenever it changes. */
  constructor(reader: SourceReader, onChange: (uids: ReadonlySet<string>, isFirst: boolean) => void) {
    this.#reader = reader;
    this.#onChange = onChange;
  }

  /** Follows the references of a Pod until {@link release}. */
  follow(pod: PodView): void {
    const { namespace = "", uid = "" } = pod.metadata;
    const { configMaps, secrets } = podReferences(pod);
    for (const name of configMaps) this.#use(ConfigMap, namespace, name, uid);
    for (const name of secrets) this.#use(Secret, namespace, name, uid);
  }

  release(uid: string): void {
    for (const [key, { users, stop }] of this.#followed) {
      if (!users.delete(uid) || users.size > 0) continue;
      this.#followed.delete(key);
      stop.abort();
    }
  }

  async close(): Promise<void> {
    for (const { stop } of this.#followed.values()) stop.abort();
    this.#followed.clear();
    await Promise.allSettled(this.#running);
  }

  #use(type: typeof ConfigMap | typeof Secret, namespace: string, name: string, uid: string): void {
    const key = `${type.plural}/${namespace}/${name}`;
    const known = this.#followed.get(key);
    if (known !== undefined) {
      known.users.add(uid);
      return;
    }
    const followed = { users: new Set([uid]), stop: new AbortController() };
    this.#followed.set(key, followed);
    let isFirst = true;
    const informer = new Informer({
      ...this.#reader,
      type,
      namespace,
      selection: { fieldSelector: `metadata.name=${name}` },
      onEffect: (effect) => {
        const wasFirst = isFirst;
        isFirst = false;
        if (!wasFirst || (effect.kind === "replace" && effect.objects.length > 0)) this.#onChange(followed.users, wasFirst);
      },
    });
    const running = informer.run(followed.stop.signal).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }
}
