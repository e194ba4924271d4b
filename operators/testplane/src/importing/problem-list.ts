/** Something that could not be converted. */
export class ConversionError extends Error {
  override readonly name = "ConversionError";
  readonly code = "NotConverted";
}

/** What could not be converted, and remarks on what was. Each line starts with the part of the original test. */
export class ProblemList {
  readonly #problems: string[] = [];
  readonly #remarks: string[] = [];

  get problems(): readonly string[] {
    return this.#problems;
  }

  get remarks(): readonly string[] {
    return this.#remarks;
  }

  /** Adds something that is missing from the converted test. */
  problem(where: string, what: string): void {
    this.#problems.push(`${where}: ${what}`);
  }

  /** Adds a difference that does not change what the test shows. */
  remark(text: string): void {
    if (!this.#remarks.includes(text)) this.#remarks.push(text);
  }

  /** Converts a part. If it cannot be converted, adds the reason and returns undefined. */
  attempt<T>(where: string, convert: () => T): T | undefined {
    try {
      return convert();
    } catch (error) {
      if (!(error instanceof ConversionError)) throw error;
      this.problem(where, error.message);
      return undefined;
    }
  }
}
