import { draft, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";

/**
 * Decides which webhooks or policies of one step run in the second round: those with the reinvocation policy `IfNeeded` that ran before a
 * change which they have not seen.
 */
export class Reinvocations {
  #isReinvocation = false;
  #lastOutput: KubernetesObject | undefined;
  /** Ran since the last change. */
  #invoked = new Set<string>();
  readonly #due = new Set<string>();

  /** Starts a round. A change by another step since the last round makes all previous ones due. */
  begin(isReinvocation: boolean, object: KubernetesObject | undefined): void {
    this.#isReinvocation = isReinvocation;
    if (isReinvocation && !jsonEquals(this.#lastOutput, object)) this.changed();
  }

  /** Whether a webhook or policy runs in this round. */
  includes(id: string): boolean {
    return !this.#isReinvocation || this.#due.has(id);
  }

  /** Records a run with the policy `IfNeeded`. */
  invoked(id: string): void {
    this.#invoked.add(id);
  }

  /** Records a change of the object: everything that ran before it is due. */
  changed(): void {
    for (const id of this.#invoked) this.#due.add(id);
    this.#invoked = new Set();
  }

  /** Ends a round. */
  end(object: KubernetesObject | undefined): void {
    this.#lastOutput = object === undefined ? undefined : draft(object);
  }
}
