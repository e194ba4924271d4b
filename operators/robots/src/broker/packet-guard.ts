import type { Socket } from "node:net";

/**
 * Checks the bytes of an MQTT connection for oversized packets before a parser buffers them.
 *
 * Every MQTT packet starts with a byte of type and flags and a length of one to four bytes, seven bits each, least significant first
 * (MQTT 3.1.1 section 2.2.3).
 */
export interface PacketGuard {
  /** Checks the next bytes. Returns false if a packet announces a length that is too large or malformed. */
  accept(chunk: Uint8Array): boolean;
  /** Number of packets that began since the last call. */
  readonly takeCount: () => number;
}

/** Creates a guard that allows packets with up to `maxBytes` after their header. */
export function createPacketGuard(maxBytes: number): PacketGuard {
  /** Remaining bytes of the current packet. 0 while a header is being read. */
  let left = 0;
  let headerBytes = 0;
  let length = 0;
  let count = 0;
  return {
    takeCount() {
      const taken = count;
      count = 0;
      return taken;
    },
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
        if (headerBytes++ === 0) {
          count++;
          continue;
        }
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

/** Closes a connection with a packet that is too large or malformed, or for which `mayContinue` returns false, which can take the count. */
export function guardConnection(socket: Socket, maxBytes: number, mayContinue: (takeCount: () => number) => boolean): void {
  const guard = createPacketGuard(maxBytes);
  // Each chunk passes the guard before a parser that reads when the socket is readable.
  socket.on("data", (chunk: Buffer) => {
    if (!guard.accept(chunk)) socket.destroy(new Error(`a packet is larger than ${maxBytes} bytes`));
    else if (!mayContinue(guard.takeCount)) socket.destroy(new Error("too many packets"));
  });
}
