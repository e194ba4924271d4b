import type { Position } from "./template-error.ts";

/** The output of a template that is being run, and the place that called it. */
export class Output {
  readonly at: Position;
  readonly #parts: string[] = [];
  #size = 0;

  constructor(at: Position) {
    this.at = at;
  }

  /** Returns false if the output would have more than `max` characters. */
  write(text: string, max: number): boolean {
    this.#size += text.length;
    if (this.#size > max) return false;
    this.#parts.push(text);
    return true;
  }

  text(): string {
    return this.#parts.join("");
  }
}
