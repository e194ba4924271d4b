import type { Duplex } from "node:stream";
import { statusError } from "@keelson/api-machinery";
import type { PodCall } from "../logs/pod-log.ts";
import { handshakeKey } from "./websocket.ts";

/** A connection that its client wants to speak another protocol on; the API server hands it over. */
export interface UpgradeRequest {
  readonly socket: Duplex;
  /** What came after the request already. */
  readonly head: Buffer;
  /** Path and query as they came: `command` occurs more than once. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** An answer that takes over the connection. */
export interface UpgradeAnswer {
  readonly kind: "upgrade";
  connect(request: UpgradeRequest): void;
}

/** What the client and this node both speak. */
export type Agreement =
  | { readonly over: "websocket"; readonly key: string; readonly protocol: string }
  | { readonly over: "spdy"; readonly protocol: string };

/** Protocols of a subresource, the best first. */
export interface Spoken {
  readonly websocket: readonly string[];
  /** Of `X-Stream-Protocol-Version`. */
  readonly spdy: readonly string[];
}

/** Chooses the protocol that a request for an upgrade is answered with. Throws a `BadRequest` where there is none. */
export function agree(call: PodCall, spoken: Spoken): Agreement {
  const headers = call.request.headers ?? {};
  const firstOf = (ours: readonly string[], header: string): string | undefined => {
    const offered = (headers[header] ?? "").split(",").map((each) => each.trim());
    return ours.find((each) => offered.includes(each));
  };
  const key = handshakeKey(headers);
  if (key !== undefined) {
    const protocol = firstOf(spoken.websocket, "sec-websocket-protocol");
    if (protocol !== undefined) return { over: "websocket", key, protocol };
  } else if (headers["upgrade"]?.toLowerCase() === "spdy/3.1") {
    const protocol = firstOf(spoken.spdy, "x-stream-protocol-version");
    if (protocol !== undefined) return { over: "spdy", protocol };
  }
  throw statusError(
    "BadRequest",
    `an upgrade is needed: to WebSocket with the protocol ${spoken.websocket[0]}, or to SPDY/3.1 with ${spoken.spdy[0]}`,
  );
}

/** Says that the connection speaks SPDY from now on, and gives back what came after the request already. */
export function acceptSpdy({ socket, head }: UpgradeRequest, protocol: string): Duplex {
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  );
  if (head.length > 0) socket.unshift(head);
  return socket;
}
