/**
 * Watches the bytes of an MQTT connection for packets over a size, before a parser collects them in memory.
 *
 * Every MQTT packet begins with a byte of type and flags and a length of one to four bytes, seven bits each, low ones first
 * (MQTT 3.1.1 section 2.2.3).
 */
export interface PacketGuard {
  /** Takes the next bytes. False: a packet announces more than is allowed, or a length that cannot be. */
  accept(chunk: Uint8Array): boolean;
}

/** Makes a guard that allows packets with up to `maxBytes` after their header. */
export function createPacketGuard(maxBytes: number): PacketGuard {
  /** Bytes of the present packet that are still to come; with 0, a header is being read. */
  let left = 0;
  let headerBytes = 0;
  let length = 0;
  return {
    accept(chunk) {
      let index = 0;
      while (index < chunk.length) {
        if (left > 0) {
          const skipped = Math.min(left, chunk.length - index);
          left -= skipped;
          index += skipped;
          continue;
        }
        const byte = chunk[index++] ?? 0;
        if (headerBytes++ === 0) continue;
        length += (byte & 0x7f) * 128 ** (headerBytes - 2);
        if (length > maxBytes) return false;
        if ((byte & 0x80) === 0) {
          left = length;
          headerBytes = 0;
          length = 0;
        } else if (headerBytes === 5) {
          return false;
        }
      }
      return true;
    },
  };
}
