import type { Duplex } from "node:stream";
import { statusError } from "@keelson/api-machinery";
import type { PodCall } from "../logs/pod-log.ts";
import { handshakeKey } from "./websocket.ts";

/** A connection whose client requested another protocol, as handed over by the API server. */
export interface UpgradeRequest {
  readonly socket: Duplex;
  /** Bytes received after the request. */
  readonly head: Buffer;
  /** The raw path and query; `command` occurs several times. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Called with the status of the response. */
  onStatus?(status: number): void;
}

/** A response that switches protocols. */
export interface UpgradeAnswer {
  readonly kind: "upgrade";
  connect(request: UpgradeRequest): void;
}

/** The protocol that client and node agreed on. */
export type Agreement =
  | { readonly over: "websocket"; readonly key: string; readonly protocol: string }
  | { readonly over: "spdy"; readonly protocol: string };

/** The protocols of a subresource, preferred first. */
export interface SupportedProtocols {
  readonly websocket: readonly string[];
  /** Values of `X-Stream-Protocol-Version`. */
  readonly spdy: readonly string[];
}

/** Chooses the protocol for an upgrade request. Throws a `BadRequest` if there is none in common. */
export function agree(call: PodCall, supported: SupportedProtocols): Agreement {
  const headers = call.request.headers ?? {};
  const firstOf = (ours: readonly string[], header: string): string | undefined => {
    const offered = (headers[header] ?? "").split(",").map((each) => each.trim());
    return ours.find((each) => offered.includes(each));
  };
  const key = handshakeKey(headers);
  if (key !== undefined) {
    const protocol = firstOf(supported.websocket, "sec-websocket-protocol");
    if (protocol !== undefined) return { over: "websocket", key, protocol };
  } else if (headers["upgrade"]?.toLowerCase() === "spdy/3.1") {
    const protocol = firstOf(supported.spdy, "x-stream-protocol-version");
    if (protocol !== undefined) return { over: "spdy", protocol };
  }
  throw statusError(
    "BadRequest",
    `upgrade request required: WebSocket with protocol ${supported.websocket[0]}, or SPDY/3.1 with ${supported.spdy[0]}`,
  );
}

/** Switches the connection to SPDY and puts back the bytes received after the request. */
export function acceptSpdy({ socket, head }: UpgradeRequest, protocol: string): Duplex {
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  );
  if (head.length > 0) socket.unshift(head);
  return socket;
}
