import type { Request, Trigger, TriggerContext } from "@keelson/controller";
import type { CachedPod } from "../workload/pod-state.ts";

/** The Pods that the last rounds found no node for and that are not reported yet, by namespace and name. Each is a request of the scheduler. */
export class UnscheduledPods implements Trigger {
  readonly #messages = new Map<string, string>();
  #enqueue: TriggerContext["enqueue"] = () => undefined;

  /** Called by the manager. */
  readonly start = ({ enqueue }: TriggerContext): (() => void) => {
    this.#enqueue = enqueue;
    return () => this.#messages.clear();
  };

  /** Adds a Pod with the reason, which replaces an earlier one. */
  add({ pod: { metadata }, message }: { readonly pod: CachedPod; readonly message: string }): void {
    const { namespace = "", name = "" } = metadata;
    const request = { namespace, name };
    this.#messages.set(keyOf(request), message);
    this.#enqueue(request);
  }

  /** Removes a Pod and returns its reason. */
  take(request: Request): string | undefined {
    const key = keyOf(request);
    const message = this.#messages.get(key);
    this.#messages.delete(key);
    return message;
  }

  /** Adds a Pod whose report failed, without a request. A newer reason stays. */
  restore(request: Request, message: string): void {
    const key = keyOf(request);
    if (!this.#messages.has(key)) this.#messages.set(key, message);
  }
}

const keyOf = ({ namespace = "", name }: Request): string => `${namespace}/${name}`;
