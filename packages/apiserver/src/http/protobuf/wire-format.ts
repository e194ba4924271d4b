/** One field as it is on the wire (protobuf encoding): a varint in `integer`, anything else in `bytes`. */
export interface WireField {
  readonly number: number;
  readonly integer: number;
  readonly bytes: Uint8Array;
}

const noBytes = new Uint8Array();

/** The fields of a message in their order. Throws RangeError where the message is malformed or cut off. */
export function* readFields(bytes: Uint8Array): Generator<WireField> {
  let at = 0;

  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) break;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw new RangeError("a number is cut off or too long");
  };
  const take = (length: number): Uint8Array => {
    if (length < 0 || length > bytes.length - at) throw new RangeError("a field is longer than its message");
    at += length;
    return bytes.subarray(at - length, at);
  };

  while (at < bytes.length) {
    const tag = Number(varint());
    const number = Math.floor(tag / 8);
    switch (tag & 7) {
      case 0:
        yield { number, integer: Number(varint()), bytes: noBytes };
        break;
      case 1:
        yield { number, integer: 0, bytes: take(8) };
        break;
      case 2:
        yield { number, integer: 0, bytes: take(Number(varint())) };
        break;
      case 5:
        yield { number, integer: 0, bytes: take(4) };
        break;
      default:
        throw new RangeError(`wire type ${tag & 7} is not known`);
    }
  }
}
