/** Ids that are kept. A message is valid for five minutes. */
const maxIds = 1024;

/**
 * Recognizes requests that this agent, or an earlier one, may have carried out already. What is not known for certain to be new is not.
 */
export class IssuedOnce {
  readonly #since: () => number | undefined;
  /** Times of issue by id, oldest first. */
  readonly #ids = new Map<string, number>();
  /** Requests that were issued until then may be repeated: their ids were dropped. */
  #forgottenUntil = 0;

  /** `since`: the server's time when this agent first learned it; undefined: not yet, or the robot has no key. */
  constructor(since: () => number | undefined) {
    this.#since = since;
  }

  /** Records a request. Returns why it must not be carried out. */
  problemOf(id: string, issuedAt: number): string | undefined {
    const since = this.#since();
    if (since === undefined) return "the robot has no key; join it with a one-time token";
    if (this.#ids.has(id)) return "it was repeated";
    if (issuedAt < since || issuedAt <= this.#forgottenUntil) {
      return "it was sent before the agent started, and the last one may have received it";
    }
    this.#ids.set(id, issuedAt);
    const [oldest] = this.#ids;
    if (this.#ids.size <= maxIds || oldest === undefined) return undefined;
    this.#ids.delete(oldest[0]);
    this.#forgottenUntil = Math.max(this.#forgottenUntil, oldest[1]);
    return undefined;
  }
}
