import type { WatchEvent } from "../objects/object.ts";

/** A request to the Kubernetes API, as much of HTTP as it needs. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with `/api` or `/apis` (or another served path) and is percent-encoded. */
  readonly path: string;
  /** Query parameters, not encoded; `undefined` ones are left out. */
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Names in lower case. `accept` defaults to `application/json`, `content-type` to `application/json` with a body. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A JSON value. The transport serialises it, or hands it over without. It must not be changed afterwards. */
  readonly body?: unknown;
  /**
   * Of a watch: makes an event of a line that came over the wire, in place of `JSON.parse`. A transport that hands objects over
   * does not ask for it. What it throws breaks the watch, as a line that is no JSON does.
   */
  readonly decode?: (line: Buffer) => unknown;
  /** The status code of the answer that this request is sent again for; absent at the first time. For metrics, not sent. */
  readonly repeats?: number;
  readonly signal?: AbortSignal | undefined;
}

/** An answer with a JSON body. `body` may be frozen and shared with a cache: copy it (`draft`) before changing it. */
export interface ApiResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** What went over the wire; absent where nothing did. */
  readonly wire?: WireFigures;
}

/** What one request and its answer cost. */
export interface WireFigures {
  /** Bytes of the request's body. */
  readonly sentBytes: number;
  /** Bytes of the answer's body, unpacked. */
  readonly receivedBytes: number;
  /** How often the transport sent the request again because its connection broke. */
  readonly repeats: number;
}

/**
 * An open watch: iterate it once. It ends when the server ends it, throws when the connection or a line breaks, and ends
 * without error when `close` is called or the request's signal fires. In-band ERROR events come as events.
 */
export interface WatchStream extends AsyncIterable<WatchEvent<unknown>> {
  /** The same events, as many at a time as came together; in place of iterating the stream. For who reads many. */
  batches?(): AsyncIterable<readonly WatchEvent<unknown>[]>;
  close(): void;
}

/** An open answer of bytes, such as a log that is followed: iterate it once. It ends and breaks as a {@link WatchStream} does. */
export interface ByteStream extends AsyncIterable<Uint8Array> {
  close(): void;
}

/**
 * The way from a client to an API server. Over HTTP it is one of `@keelson/client`; in process it is the server's own
 * (`ApiServer.transport`), which skips HTTP and serialisation but neither authorization, admission nor validation.
 *
 * **Errors**: `request` answers any status code without throwing; it throws only where no answer came. `watch` and `stream` throw
 * a `StatusError` where the server answers anything but 200.
 */
export interface Transport {
  request(request: ApiRequest): Promise<ApiResponse>;
  watch(request: ApiRequest): Promise<WatchStream>;
  /** The answer's bytes as they come. A transport that wraps another may leave it out: then logs are not to be had through it. */
  stream?(request: ApiRequest): Promise<ByteStream>;
  /** Ends every open request and watch, and frees sockets. */
  close(): Promise<void>;
}
