/** Beyond this number of characters in total, each warning is shortened. Same as kube-apiserver. */
const maxTotalLength = 4 * 1024;
/** The length of a shortened warning in characters. */
const maxItemLength = 256;

/**
 * The warnings of a response, each once. As in kube-apiserver, warnings of more than 4,096 characters in total are shortened to 256
 * characters each, and further ones dropped, because clients limit the size of headers.
 */
export class Warnings {
  readonly #known = new Set<string>();
  #texts: string[] = [];
  #length = 0;
  #isShortening = false;

  /** The warnings to send, in the order in which they were added. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** Adds a warning unless it is empty or known. */
  add(text: string): void {
    if (text === "" || (this.#isShortening && this.#length >= maxTotalLength) || this.#known.has(text)) return;
    this.#known.add(text);
    if (!this.#isShortening && this.#length + text.length > maxTotalLength) this.#shorten();
    this.#append(text);
  }

  #shorten(): void {
    this.#isShortening = true;
    const texts = this.#texts;
    this.#texts = [];
    this.#length = 0;
    for (const text of texts) this.#append(text);
  }

  #append(text: string): void {
    const kept = this.#isShortening && text.length > maxItemLength ? shortened(text) : text;
    this.#texts.push(kept);
    this.#length += kept.length;
  }
}

/** Cuts between characters, never within one of two code units. */
function shortened(text: string): string {
  return [...text.slice(0, 2 * maxItemLength)].slice(0, maxItemLength).join("");
}
