import type { Request, Trigger, TriggerContext } from "@keelson/controller";
import type { CachedPod } from "../workload/pod-state.ts";

/** Why the last round found no node for a Pod. */
interface SchedulingFailure {
  readonly uid: string | undefined;
  readonly message: string;
}

/** A Pod that fits no node, with the reason. */
interface UnscheduledPod {
  readonly pod: CachedPod;
  readonly message: string;
}

/** The Pods that the last round found no node for and that are not reported yet. Each is a request of the scheduler. */
export class UnscheduledPods implements Trigger {
  /** By namespace and name, as a request has no uid. A Pod that was created again does not inherit the failure of its predecessor. */
  readonly #failures = new Map<string, SchedulingFailure>();
  #enqueue: TriggerContext["enqueue"] = () => undefined;

  /** Called by the manager. */
  readonly start = ({ enqueue }: TriggerContext): (() => void) => {
    this.#enqueue = enqueue;
    return () => this.#failures.clear();
  };

  /** Removes every Pod that is not among those that failed in the latest round. */
  retain(failed: readonly UnscheduledPod[]): void {
    if (this.#failures.size === 0) return;
    const uids = new Set(failed.map(({ pod }) => pod.metadata.uid));
    for (const [key, { uid }] of this.#failures) if (!uids.has(uid)) this.#failures.delete(key);
  }

  /** Adds a Pod with the reason, which replaces an earlier one. */
  add({ pod: { metadata }, message }: UnscheduledPod): void {
    const { namespace = "", name = "", uid } = metadata;
    const request = { namespace, name };
    const before = this.#failures.get(keyOf(request));
    // A report that is being written counts for the same failure.
    if (before?.uid !== uid || before?.message !== message) this.#failures.set(keyOf(request), { uid, message });
    this.#enqueue(request);
  }

  /** Returns the failure to report. It stays until it is {@link remove | removed}, so that a report that fails can be repeated. */
  get(request: Request): SchedulingFailure | undefined {
    return this.#failures.get(keyOf(request));
  }

  /** Removes a failure that is reported or obsolete. A newer one of the same Pod stays. */
  remove(request: Request, failure: SchedulingFailure): void {
    const key = keyOf(request);
    if (this.#failures.get(key) === failure) this.#failures.delete(key);
  }
}

const keyOf = ({ namespace = "", name }: Request): string => `${namespace}/${name}`;
