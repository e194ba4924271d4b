import type { WatchEvent } from "../objects/object.ts";

/** A request to the Kubernetes API. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Starts with `/api`, `/apis` or another served path. Percent-encoded. */
  readonly path: string;
  /** Query parameters, not encoded. `undefined` values are omitted. */
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Lower-case names. `accept` defaults to `application/json`; so does `content-type` if there is a body. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A JSON value. A transport may serialize it or pass it by reference, so it must not change afterwards. */
  readonly body?: unknown;
  /**
   * For watches: parses a line from the wire, instead of `JSON.parse`. Ignored by transports that pass objects by reference.
   * If it throws, the watch fails as it does for a line that is not JSON.
   */
  readonly decode?: (line: Buffer) => unknown;
  /** The status code of the response that caused this retry; absent on the first attempt. Used for metrics, not sent. */
  readonly repeats?: number;
  readonly signal?: AbortSignal | undefined;
}

/** A response with a JSON body. `body` may be frozen and shared with a cache: copy it with `draft` before changing it. */
export interface ApiResponse {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** The cost on the wire; absent for in-process transports. */
  readonly wire?: WireFigures;
}

/** The cost of a request and its response. */
export interface WireFigures {
  /** Size of the request body. */
  readonly sentBytes: number;
  /** Size of the response body, decompressed. */
  readonly receivedBytes: number;
  /** The number of times the transport resent the request because its connection broke. */
  readonly repeats: number;
}

/**
 * An open watch. Iterate it once. Iteration ends when the server ends the watch, when `close` is called or when the request's
 * signal aborts; it throws when the connection breaks or a line is malformed. In-band ERROR events are returned as events.
 */
export interface WatchStream extends AsyncIterable<WatchEvent<unknown>> {
  /** The same events in batches, as they arrived. Use it instead of iterating the stream when there are many events. */
  batches?(): AsyncIterable<readonly WatchEvent<unknown>[]>;
  close(): void;
}

/** An open stream of bytes, such as a followed log. Iterate it once. It ends and fails as a {@link WatchStream} does. */
export interface ByteStream extends AsyncIterable<Uint8Array> {
  close(): void;
}

/**
 * The connection between a client and an API server. `@keelson/client` implements it over HTTP. The embedded server
 * implements it in process (`ApiServer.transport`), which skips HTTP and serialization but not authorization, admission or
 * validation.
 *
 * **Errors**: `request` returns responses of any status code and throws only if there was no response. `watch` and `stream`
 * throw a `StatusError` for any status code but 200.
 */
export interface Transport {
  request(request: ApiRequest): Promise<ApiResponse>;
  watch(request: ApiRequest): Promise<WatchStream>;
  /** Returns the response body as it arrives. A wrapping transport may omit it; logs are then unavailable through it. */
  stream?(request: ApiRequest): Promise<ByteStream>;
  /** Aborts open requests and watches, and closes sockets. */
  close(): Promise<void>;
}
