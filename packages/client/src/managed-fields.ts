import { isJsonObject } from "@keelson/api-machinery";

const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const openBracket = 0x5b;
const closeBrace = 0x7d;
const closeBracket = 0x5d;

const key = '"managedFields":';
const start = `${key}[`;

/**
 * Parses a watch event, its object without `metadata.managedFields`: they are about a third of what a server sends, and what is
 * not parsed costs neither the parsing nor the garbage.
 *
 * The first list of that name in the text is taken out before it is parsed. Whether it was the one of the metadata shows
 * afterwards: if not, all is parsed again as it came.
 *
 * **Errors**: those of `JSON.parse`.
 */
export function parseWithoutManagedFields(line: Buffer): unknown {
  const text = line.toString("utf8");
  const at = text.indexOf(start);
  const end = at < 0 ? text.length : endOfArray(text, at + key.length);
  if (end < text.length) {
    // A list is replaced by what no server sends in its place.
    const event: unknown = JSON.parse(`${text.slice(0, at + key.length)}0${text.slice(end + 1)}`);
    const metadata = metadataOf(event);
    if (metadata?.["managedFields"] === 0) {
      delete metadata["managedFields"];
      return event;
    }
  }
  return JSON.parse(text) as unknown;
}

function metadataOf(event: unknown): Record<string, unknown> | undefined {
  const object = isJsonObject(event) ? event["object"] : undefined;
  const metadata = isJsonObject(object) ? object["metadata"] : undefined;
  return isJsonObject(metadata) ? metadata : undefined;
}

/** Where the array that begins at `from` has its closing bracket; the text's length where it has none. */
function endOfArray(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      for (at++; at < text.length && text.charCodeAt(at) !== quote; at++) if (text.charCodeAt(at) === backslash) at++;
    } else if (code === openBrace || code === openBracket) depth++;
    else if ((code === closeBrace || code === closeBracket) && --depth === 0) return at;
  }
  return text.length;
}
