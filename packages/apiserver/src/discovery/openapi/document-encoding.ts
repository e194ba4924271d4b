import { createHash } from "node:crypto";
import type { Steps } from "@keelson/api-machinery/server";
import type { Json } from "./openapi-types.ts";

/** An OpenAPI document as JSON. */
export interface EncodedDocument {
  readonly bytes: Uint8Array;
  /** The hash of the bytes in quotes. */
  readonly etag: string;
}

/** Text that is encoded in one step. */
const stepLength = 16 * 1024;

/** Objects in a document that are divided: `paths`, its entries, and `components.schemas`. */
const dividedLevels = 3;

/** Encodes a document as JSON, a part in each step. */
export function* encodeJson(document: Json): Steps<EncodedDocument> {
  const hash = createHash("sha256");
  const parts: Buffer[] = [];
  let text = "";
  for (const part of jsonParts(document, dividedLevels)) {
    text += part;
    if (text.length < stepLength) continue;
    const bytes = Buffer.from(text);
    hash.update(bytes);
    parts.push(bytes);
    text = "";
    yield;
  }
  const last = Buffer.from(text);
  hash.update(last);
  parts.push(last);
  return { bytes: Buffer.concat(parts), etag: `"${hash.digest("hex").toUpperCase()}"` };
}

function* jsonParts(value: unknown, levels: number): Generator<string, void, void> {
  if (levels === 0 || typeof value !== "object" || value === null || Array.isArray(value)) {
    yield JSON.stringify(value);
    return;
  }
  let before = "{";
  for (const [key, child] of Object.entries(value)) {
    if (child === undefined) continue;
    yield `${before}${JSON.stringify(key)}:`;
    yield* jsonParts(child, levels - 1);
    before = ",";
  }
  yield before === "{" ? "{}" : "}";
}

/**
 * Encodes a document as a protobuf message, an entry in each step. The message of `paths` and those of schemas occur once for each entry,
 * and parsers merge them.
 */
export function* encodeProtobuf(document: Json, encode: (part: Json) => Uint8Array): Steps<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (const part of partsOf(document)) {
    parts.push(encode(part));
    yield;
  }
  return Buffer.concat(parts);
}

/** Documents with one entry each, which together are the document. */
function* partsOf(document: Json): Generator<Json, void, void> {
  const { paths, definitions, components, ...others } = document;
  yield others;
  for (const [key, value] of Object.entries(Object(paths))) yield { paths: { [key]: value } };
  for (const [key, value] of Object.entries(Object(definitions))) yield { definitions: { [key]: value } };
  for (const [key, value] of Object.entries(Object(Object(components)["schemas"])))
    yield { components: { schemas: { [key]: value } } };
}
