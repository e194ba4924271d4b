import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

/** One field on the wire: a varint in `integer`, anything else in `bytes`. */
export interface WireField {
  readonly number: number;
  readonly integer: number;
  readonly bytes: Uint8Array;
}

const noBytes = new Uint8Array();

/** Reads the fields of a message in order. Throws RangeError if the message is malformed or truncated. */
export function* readFields(bytes: Uint8Array): Generator<WireField> {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) yield readField(reader);
}

function readField(reader: BinaryReader): WireField {
  try {
    const [number, type] = reader.tag();
    switch (type) {
      case WireType.Varint:
        return { number, integer: Number(reader.int64()), bytes: noBytes };
      case WireType.LengthDelimited:
        return { number, integer: 0, bytes: reader.bytes() };
      default:
        return { number, integer: 0, bytes: reader.skip(type, number) };
    }
  } catch (error) {
    throw error instanceof RangeError ? error : new RangeError((error as Error).message, { cause: error });
  }
}
