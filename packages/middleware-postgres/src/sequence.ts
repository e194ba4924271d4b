/** Runs actions one after the other. */
export class Sequence {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs an action after all earlier ones, whether they failed or not. */
  run<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#last.then(act);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
