import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { EncodedObject, ListOutcome } from "../../endpoints/outcome.ts";
import { forEachSlice } from "../../endpoints/read/slices.ts";
import type { EncodedBody } from "../encode.ts";
import { hasMessage, type ProtobufEncoder, type TypeMeta } from "./encode.ts";

/** Encodes an object that names its kind. */
export function protobufOf(value: unknown, encoder: ProtobufEncoder): Uint8Array {
  const object = isJsonObject(value) ? value : {};
  return encoder.object(object, typeOf(object));
}

/** Whether a document can be sent as protobuf, as those of discovery can. */
export function isMessage(document: unknown): boolean {
  return isJsonObject(document) && hasMessage(typeOf(document));
}

function typeOf({ apiVersion, kind }: Readonly<JsonObject>): TypeMeta {
  return { apiVersion: typeof apiVersion === "string" ? apiVersion : "", kind: typeof kind === "string" ? kind : "" };
}

/** Objects parsed and encoded in one turn of the event loop. */
const convertedSlice = 100;

/**
 * Encodes a list, one slice per turn of the event loop. The list is complete before it is sent, because its length precedes its items.
 */
export async function encodeProtobufList(
  { items, remaining, listMeta }: ListOutcome,
  { encoder, list, item }: { readonly encoder: ProtobufEncoder; readonly list: TypeMeta; readonly item: TypeMeta },
): Promise<EncodedBody> {
  const parts: Uint8Array[] = [];
  let itemBytes = 0;
  const add = (slice: readonly EncodedObject[]): void => {
    const part = encoder.items(item, slice.map(parsed));
    itemBytes += part.length;
    parts.push(part);
  };
  await forEachSlice(items, add, { size: convertedSlice });
  for await (const slice of remaining?.slices() ?? []) await forEachSlice(slice, add, { size: convertedSlice });
  const { start, end } = encoder.listEnds(list, { ...listMeta }, itemBytes);
  return { bytes: start.length + itemBytes + end.length, parts: () => [start, ...parts, end] };
}

/** The value of an item, without keeping it: its object would stay as long as the item, and be frozen. */
function parsed({ bytes }: EncodedObject): JsonObject {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()) as JsonObject;
}
