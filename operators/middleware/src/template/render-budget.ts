/** Work that several renderings may do together, so that a check of untrusted templates ends. */
export class RenderBudget {
  #steps: number;
  #characters: number;
  #tokens: number;

  /** `steps`: commands and iterations. `characters`: length of all texts that functions read or return and that are written. `tokens`: of YAML. */
  constructor({ steps, characters, tokens }: Readonly<Record<"steps" | "characters" | "tokens", number>>) {
    this.#steps = steps;
    this.#characters = characters;
    this.#tokens = tokens;
  }

  /** Spends a token of a text that is parsed. Returns false if none is left. */
  token(): boolean {
    this.#tokens -= 1;
    return this.#tokens >= 0;
  }

  /** Spends steps. Returns false if too few are left. */
  spend(steps: number): boolean {
    this.#steps -= steps;
    return this.#steps >= 0;
  }

  /** Spends characters. Returns false if too few are left. */
  read(characters: number): boolean {
    this.#characters -= characters;
    return this.#characters >= 0;
  }
}
