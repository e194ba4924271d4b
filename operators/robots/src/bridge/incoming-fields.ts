/** Reads a field of an untrusted message. */
export type GetField = (field: string) => unknown;

/** Whether a value is a whole number of at least 0 that fits into 32 bits. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 31;
}

/** Cuts a text to a length and replaces control characters other than newline and tab, because they can control a terminal. */
export function clean(text: string, length: number): string {
  return text
    .slice(0, length)
    .replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : "\ufffd"));
}
