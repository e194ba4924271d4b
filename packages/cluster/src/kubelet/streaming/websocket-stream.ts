import { Duplex } from "node:stream";
import { acceptWebSocket, type WebSocketEnd } from "./websocket.ts";

/** Wraps a WebSocket as a byte stream, ignoring message boundaries (KEP-4006 tunnels SPDY this way). */
export function webSocketStream(
  socket: Duplex,
  head: Buffer,
  handshake: { readonly key: string; readonly protocol: string },
): Duplex {
  let peer: WebSocketEnd | undefined;
  const stream = new Duplex({
    read: () => peer?.resume(),
    write(chunk: Buffer, _encoding, done) {
      if (peer === undefined || peer.send(chunk)) done();
      else void peer.drained().then(() => done());
    },
    final(done) {
      peer?.close(1000);
      done();
    },
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });
  peer = acceptWebSocket(socket, head, handshake, {
    message(data) {
      if (!stream.push(data)) peer?.pause();
    },
    closed: () => void stream.push(null),
  });
  return stream;
}
