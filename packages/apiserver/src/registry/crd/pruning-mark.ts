/**
 * Up to which revision objects of a custom kind may have fields that its schema no longer has: later ones were pruned by the
 * current schema when they were written, and need not be parsed to be read.
 */
export class PruningMark {
  #revision: number;

  /** `revision` is that of the CRD when it got its schema. */
  constructor(revision: number) {
    this.#revision = revision;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Includes an object that was pruned by an earlier schema and written after the schema had changed. */
  raise(revision: number): void {
    this.#revision = Math.max(this.#revision, revision);
  }
}
