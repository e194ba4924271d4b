import { acceptWebSocket, handshakeKey, type WebSocketHandshake } from "../streaming/websocket.ts";
import type { UpgradeRequest } from "../streaming/upgrade.ts";

/** Protocols of a log as messages, preferred first: bytes, or Base64 in text messages (`k8s.io/apimachinery/pkg/util/httpstream/wsstream`). */
const protocols = ["binary.k8s.io", "base64.binary.k8s.io"] as const;

/** The handshake of a client that requests a log over a WebSocket; undefined if it does not. Without a protocol, messages are bytes. */
export function logHandshake(headers: Readonly<Record<string, string>>): WebSocketHandshake | undefined {
  const key = handshakeKey(headers);
  if (key === undefined) return undefined;
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((each) => each.trim());
  const protocol = protocols.find((each) => offered.includes(each));
  return { key, ...(protocol !== undefined && { protocol }) };
}

/** Sends bytes as messages of a WebSocket, no faster than the client reads, and then closes it. */
export async function sendMessages(
  { socket, head }: Pick<UpgradeRequest, "socket" | "head">,
  handshake: WebSocketHandshake,
  read: (signal: AbortSignal) => AsyncIterable<Uint8Array>,
): Promise<void> {
  const closed = new AbortController();
  const peer = acceptWebSocket(socket, head, handshake, { message: () => {}, closed: () => closed.abort() });
  const isText = handshake.protocol === "base64.binary.k8s.io";
  try {
    for await (const bytes of read(closed.signal)) {
      if (closed.signal.aborted) return;
      const isFast = isText ? peer.sendText(Buffer.from(bytes).toString("base64")) : peer.send(bytes);
      if (!isFast) await peer.drained();
    }
    peer.close(1000);
  } catch {
    peer.close(1011, "the log could not be read");
  }
}
