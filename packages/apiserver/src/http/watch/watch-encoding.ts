import type { EncodedObject, WatchedEvent } from "../../endpoints/outcome.ts";
import { protobufType } from "../negotiation.ts";
import { protobufOf } from "../protobuf/body.ts";
import type { ProtobufEncoder } from "../protobuf/encode.ts";

/** A type of event that has an object. */
export type ObjectEventType = Exclude<WatchedEvent["type"], "ERROR">;

/** How the events of a watch are written. */
export interface WatchEncoding {
  readonly contentType: string;
  /** An object as it is, in parts. */
  object(type: ObjectEventType, object: EncodedObject): readonly Uint8Array[];
  /** Any other value: a Status, a Table, or metadata. */
  value(type: WatchedEvent["type"], value: object): Uint8Array;
}

const openings = {
  ADDED: Buffer.from('{"type":"ADDED","object":'),
  MODIFIED: Buffer.from('{"type":"MODIFIED","object":'),
  DELETED: Buffer.from('{"type":"DELETED","object":'),
  BOOKMARK: Buffer.from('{"type":"BOOKMARK","object":'),
};
const closing = Buffer.from("}\n");

/** One JSON document per line. */
export const jsonLines: WatchEncoding = {
  contentType: "application/json",
  object: (type, object) => [openings[type], object.bytes, closing],
  value: (type, value) => Buffer.from(`{"type":"${type}","object":${JSON.stringify(value)}}\n`),
};

/** Frames of protobuf, each after its length. */
export function protobufFrames(encoder: ProtobufEncoder): WatchEncoding {
  const frame = (type: string, value: unknown): Uint8Array => encoder.frame(type, protobufOf(value, encoder));
  return {
    contentType: `${protobufType};stream=watch`,
    object: (type, { object }) => [frame(type, object)],
    value: frame,
  };
}
