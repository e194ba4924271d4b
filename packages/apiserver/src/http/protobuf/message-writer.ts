/** Writes one protobuf message field by field, in the order of the calls (protobuf encoding). */
export interface MessageWriter {
  /** A string. */
  text(field: number, value: string): void;
  /** A nested message that is written already, or bytes. */
  bytes(field: number, value: Uint8Array): void;
  /** An `int64` or `bool`: whole numbers of either sign. Beyond what a double holds exactly, the nearest is written. */
  integer(field: number, value: number): void;
  double(field: number, value: number): void;
  finish(): Uint8Array;
}

/** Makes a {@link MessageWriter}. `readFields` reads what it writes. */
export function createMessageWriter(): MessageWriter {
  const parts: Uint8Array[] = [];
  const bytes = (field: number, value: Uint8Array): void => {
    parts.push(varint(BigInt(field * 8 + 2)), varint(BigInt(value.length)), value);
  };
  return {
    bytes,
    text: (field, value) => bytes(field, Buffer.from(value, "utf8")),
    integer: (field, value) => void parts.push(varint(BigInt(field * 8)), varint(BigInt(Math.trunc(value)))),
    double(field, value) {
      const eight = Buffer.alloc(8);
      eight.writeDoubleLE(value);
      parts.push(varint(BigInt(field * 8 + 1)), eight);
    },
    finish: () => Buffer.concat(parts),
  };
}

function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let left = BigInt.asUintN(64, value);
  do {
    bytes.push(Number(left & 0x7fn) | (left > 0x7fn ? 0x80 : 0));
    left >>= 7n;
  } while (left > 0n);
  return Uint8Array.from(bytes);
}
