/** An element in the Distinguished Encoding Rules (X.690) with a tag of one byte. Positions are offsets in the whole text. */
export interface DerElement {
  /** Class, form and number in one byte: 0x30 is a SEQUENCE. */
  readonly tag: number;
  readonly start: number;
  readonly content: number;
  readonly end: number;
}

/** Reads the element at an offset. Returns a string with the reason if it is malformed, in the words of Go's `encoding/asn1`. */
export function readDer(bytes: Buffer, start: number): DerElement | string {
  const [tag, length] = [bytes[start], bytes[start + 1]];
  if (tag === undefined) return derFault("syntax", "sequence truncated");
  if ((tag & 0x1f) === 0x1f || length === undefined) return derFault("syntax", "truncated tag or length");
  if (length < 0x80) return element(bytes, { tag, start, content: start + 2, end: start + 2 + length });
  const count = length & 0x7f;
  if (count === 0) return derFault("syntax", "indefinite length found (not DER)");
  if (start + 2 + count > bytes.length) return derFault("syntax", "truncated tag or length");
  if (bytes[start + 2] === 0) return derFault("structure", "superfluous leading zeros in length");
  if (count > 4) return derFault("structure", "length too large");
  const size = bytes.readUIntBE(start + 2, count);
  if (size < 0x80) return derFault("structure", "non-minimal length");
  return element(bytes, { tag, start, content: start + 2 + count, end: start + 2 + count + size });
}

function element(bytes: Buffer, found: DerElement): DerElement | string {
  return found.end > bytes.length ? derFault("syntax", "data truncated") : found;
}

/** The message of an error in the encoding or in the structure that it encodes. */
export function derFault(kind: "structure" | "syntax", detail: string): string {
  return `asn1: ${kind} error: ${detail}`;
}

/** How Go prints the options of a field without any. */
const noOptions =
  "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}";

/** The message of an element whose tag is not `expected`. `type` is Go's; `base` is the position from which Go counts offsets. */
export function tagMismatch(expected: number, { tag, content, end }: DerElement, type: string, base: number): string {
  const isCompound = (tag & 0x20) !== 0;
  const found = `{class:${tag >> 6} tag:${tag & 0x1f} length:${end - content} isCompound:${isCompound}}`;
  return derFault("structure", `tags don't match (${expected} vs ${found}) ${noOptions} ${type} @${content - base}`);
}
