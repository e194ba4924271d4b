/** A block of PEM text (RFC 7468) with valid base64. */
export interface PemBlock {
  /** The label: `CERTIFICATE`. */
  readonly type: string;
  /** Whether it has headers (RFC 1421), such as `Proc-Type`. */
  readonly hasHeaders: boolean;
  /** The content, in base64 with its line breaks. */
  readonly base64: string;
  /** The whole block, from the line that begins it to the line that ends it. */
  readonly text: string;
}

/** Maximum size of a PEM text that is parsed on behalf of a user, in bytes: a chain of more than 100 certificates. */
export const maxPemBytes = 256 * 1024;

const [beginning, ending, dashes] = ["-----BEGIN ", "-----END ", "-----"];

/**
 * The PEM blocks of a text, in order. As in Go, each marker is its own line, and a block that is not closed or that has invalid
 * base64 is skipped.
 *
 * **Guarantees**: takes time linear in the length of the text.
 */
export function pemBlocks(text: string): PemBlock[] {
  const blocks: PemBlock[] = [];
  let open: { readonly type: string; readonly start: number; readonly content: number } | undefined;
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf("\n", start);
    const next = newline < 0 ? text.length : newline + 1;
    const begun = labelOf(text, beginning, start, next);
    const ended = labelOf(text, ending, start, next);
    if (begun !== undefined) open = { type: begun, start, content: next };
    else if (ended !== undefined) {
      if (open?.type === ended) {
        const { hasHeaders, base64 } = contentOf(text.slice(open.content, start));
        const block = text.slice(open.start, next).trimEnd();
        if (isBase64(base64)) blocks.push({ type: ended, hasHeaders, base64, text: block });
      }
      open = undefined;
    }
    start = next;
  }
  return blocks;
}

/** The label of a marker on the line from `start` to `next`. */
function labelOf(text: string, marker: string, start: number, next: number): string | undefined {
  if (!text.startsWith(marker, start)) return undefined;
  const line = text.slice(start, next).trimEnd();
  return line.length >= marker.length + dashes.length && line.endsWith(dashes)
    ? line.slice(marker.length, -dashes.length)
    : undefined;
}

/** Separates headers, which are the leading lines with a colon, from the base64. */
function contentOf(content: string): { readonly hasHeaders: boolean; readonly base64: string } {
  let start = 0;
  while (start < content.length) {
    const newline = content.indexOf("\n", start);
    const next = newline < 0 ? content.length : newline + 1;
    if (!content.slice(start, next).includes(":")) break;
    start = next;
  }
  return { hasHeaders: start > 0, base64: content.slice(start) };
}

function isBase64(text: string): boolean {
  return !/[^A-Za-z0-9+/=\s]/.test(text);
}
