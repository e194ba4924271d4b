/** Escapes with their own letter. */
const shortEscapes: ReadonlyMap<string, string> = new Map([
  ['"', '\\"'],
  ["\\", "\\\\"],
  ["\u0007", "\\a"],
  ["\b", "\\b"],
  ["\f", "\\f"],
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
  ["\v", "\\v"],
]);

/** A text in quotes as Go's `%q` prints it: like JSON, but with `\x00`, `\a` and `\v`, and with escapes of characters that cannot be printed. */
export function quoteText(text: string): string {
  return `"${text.replaceAll(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|["\\]/gu, escapeOf)}"`;
}

/** Maximum length of a text in a message. A request of megabytes must not get a response several times as large. */
const maxShownLength = 16_384;

/** A text for a message, cut off if it is very long. */
export function shorten(text: string): string {
  return text.length <= maxShownLength ? text : `${text.slice(0, maxShownLength)}...`;
}

function escapeOf(character: string): string {
  const short = shortEscapes.get(character);
  if (short !== undefined) return short;
  const code = character.codePointAt(0) ?? 0;
  // Half of a surrogate pair.
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  const digits = code.toString(16);
  if (code < 0x80) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}
