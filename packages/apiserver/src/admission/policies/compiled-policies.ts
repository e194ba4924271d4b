import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { type Store, storageKey, type StoredObject, type StoreWatch } from "../../storage/store.ts";

interface Compiled<Program> {
  readonly revision: number;
  readonly program: Program;
}

/** The policies of one kind and their programs, which are compiled on first use and dropped when the policy changes or is deleted. */
export class CompiledPolicies<Program> {
  readonly #store: Pick<Store, "get">;
  readonly #plural: string;
  readonly #compile: (policy: DeepReadonly<KubernetesObject>) => Program;
  readonly #programs = new Map<string, Compiled<Program>>();
  readonly #watch: StoreWatch;

  constructor(
    store: Pick<Store, "get" | "watch" | "revision">,
    plural: string,
    compile: (policy: DeepReadonly<KubernetesObject>) => Program,
  ) {
    this.#store = store;
    this.#plural = plural;
    this.#compile = compile;
    this.#watch = store.watch(this.#keyOf(""), store.revision, (events) => {
      for (const { object } of events) this.#programs.delete(object.key);
    });
  }

  /** The policy of a name; undefined if it does not exist. */
  get(name: string): StoredObject | undefined {
    return this.#store.get(this.#keyOf(name));
  }

  /** The program of a policy that {@link get} returned. */
  programOf({ key, revision, object }: StoredObject): Program {
    const known = this.#programs.get(key);
    if (known?.revision === revision) return known.program;
    const program = this.#compile(object);
    this.#programs.set(key, { revision, program });
    return program;
  }

  /** Number of compiled policies. */
  get size(): number {
    return this.#programs.size;
  }

  close(): void {
    this.#watch.close();
  }

  #keyOf(name: string): string {
    return storageKey({ group: "admissionregistration.k8s.io", plural: this.#plural }, "", name);
  }
}
