import type { IncomingHttpHeaders } from "node:http";
import type { Duplex, Readable } from "node:stream";
import type { DeepReadonly, KubernetesObject, Status } from "@keelson/api-machinery";
import type { ApiRequest, ListMeta } from "@keelson/api-machinery/transport";
import type { RequestAudit } from "../audit/request-audit.ts";
import type { RequestInfo } from "./request-info.ts";
import type { ServedResource, UserInfo } from "../registry/served-resource.ts";

/** An authenticated request from the HTTP server or an in-process transport. */
export interface PipelineRequest extends ApiRequest {
  /** What method, path and query request, if the sender knows it already. */
  readonly info?: RequestInfo | undefined;
  readonly user: UserInfo;
  /** The `User-Agent`. The part before the first `/` is the default field manager. */
  readonly userAgent?: string | undefined;
  /** Every value of the query parameter `dryRun`, if it is repeated. Default: the one in `query`. */
  readonly repeatedDryRun?: readonly string[];
  /**
   * Paths of fields that occur twice in the body's text (`metadata.labels.app`), known only to its parser. `fieldValidation` decides
   * whether they are warnings or errors.
   */
  readonly duplicateFields?: readonly string[];
  /** The position of each field in a body with duplicate fields. */
  readonly fieldPositions?: ReadonlyMap<string, number> | undefined;
  /** The same for a YAML body, as go-yaml reports it: `line 7: key "a" already set in map`. */
  readonly duplicateKeys?: readonly string[];
  /** Whether a long list may be read while it is sent, so that its size does not matter. Default: lists are complete. */
  readonly acceptsSlices?: boolean;
  /** Size of a body received as bytes. More than 3 MiB is rejected (413). */
  readonly bodyBytes?: number;
  /**
   * Reads and parses the body of an HTTP request, then sets `body`, `bodyBytes`, `duplicateFields` and `duplicateKeys`. Called once, after authorization
   * and only if the resource exists, so that other senders cost nothing. Throws a StatusError for a malformed body or unacceptable media
   * types.
   *
   * @param isTyped whether the body is a built-in kind, for which duplicate keys with objects are merged
   */
  receive?(isTyped: boolean): Promise<void>;
  /** The HTTP request as received, for subresources that pass it on. */
  readonly forwarded?: ForwardedRequest;
  /** The request's audit record. Default: it is not recorded. */
  readonly audit?: RequestAudit | undefined;
}

/** An HTTP request that is passed on to another server. */
export interface ForwardedRequest {
  /** Also `HEAD` and `OPTIONS`. */
  readonly method: string;
  /** Raw path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly isUpgrade: boolean;
  /** The unread body. Called once, instead of `receive`. */
  body(): Readable;
}

/**
 * An object in the requested version, as bytes to send and as a parsed value. Both are computed on first use and immutable.
 * A `StoredObject` is one.
 */
export interface EncodedObject {
  /** UTF-8 JSON, beginning with `{"apiVersion":...,"kind":...,"metadata":{`. */
  readonly bytes: Uint8Array;
  readonly object: DeepReadonly<KubernetesObject>;
}

/** One object: the result of get, create, update, patch, a review, or a delete that waits for finalizers or a grace period. */
export interface ObjectOutcome {
  readonly kind: "object";
  /** 200; 201 after a create. */
  readonly status: number;
  readonly object: EncodedObject;
  readonly resource: ServedResource;
  /** `scale` if the object is a Scale, and so on. Only `""` and `status` can be shown as a Table. */
  readonly subresource: string;
  /** Each is sent as a header `warning: 299 - "text"`. */
  readonly warnings?: readonly string[];
}

/** The items of a list that are read while it is sent. */
export interface RemainingItems {
  /** Their number before selectors. */
  readonly count: number;
  /** Reads them in order. The reader may be slow, and may stop at any time. Rejects with `Expired` if it is slower than the history. */
  slices(): AsyncIterable<readonly EncodedObject[]>;
  /**
   * As {@link slices}, for readers that only copy the bytes: calls `add` with the bytes of each item, which are valid only during the call,
   * and yields after each slice. Undefined if items are selected, converted or defaulted.
   */
  readonly copy?: (add: (bytes: Uint8Array) => void) => AsyncIterable<void>;
}

/** A list (`resource.listKind`). */
export interface ListOutcome {
  readonly kind: "list";
  /** All items, or the first ones if there are `remaining` ones. */
  readonly items: readonly EncodedObject[];
  /** Only for a request that `acceptsSlices`. */
  readonly remaining?: RemainingItems;
  readonly listMeta: ListMeta;
  readonly resource: ServedResource;
  /**
   * Items of built-in kinds are sent without `apiVersion` and `kind`: replace this many leading bytes of each item's `bytes` with one
   * `{`. 0 sends the bytes unchanged.
   */
  readonly itemSkip: number;
  readonly warnings?: readonly string[];
}

/** A change as one watcher sees it, after its selectors. */
export type WatchedEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: EncodedObject }
  | { readonly type: "ERROR"; readonly status: Status };

/** Receives the events of a watch. Neither function may throw or block. */
export interface WatchSink {
  /** `isInitial` marks the initial state, which precedes all changes and does not count towards buffer limits. */
  events(batch: readonly WatchedEvent[], isInitial?: boolean): void;
  /** The server ended the watch: it timed out, failed (after an ERROR event), or the server is stopping. Called at most once. */
  end(): void;
}

/**
 * An accepted watch. `open` is called once and may deliver events to `sink` before it returns. The sink's owner bounds its buffer: if
 * its peer is too slow, it calls `close` and ends the stream, and the client resumes.
 */
export interface WatchOutcome {
  readonly kind: "watch";
  readonly warnings?: readonly string[];
  readonly resource: ServedResource;
  open(sink: WatchSink): { close(): void };
}

/** A Status: any failure, or a completed delete. The HTTP status is `status.code`, or 200. */
export interface StatusOutcome {
  readonly kind: "status";
  readonly status: Status;
  /** Sent over HTTP as plain text instead of the Status: no part of the API has the path. */
  readonly text?: string;
  /** Sent with the Status. Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly warnings?: readonly string[];
}

/** A JSON document that is not an object of a served kind: discovery, OpenAPI, version. */
export interface DocumentOutcome {
  readonly kind: "document";
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** `body` as JSON, if it was encoded before. Then `body` is parsed on each use. */
  readonly encoded?: Uint8Array;
}

/** Anything else: health checks, metrics, logs. Sent unchanged; strings as UTF-8. */
export interface RawOutcome {
  readonly kind: "raw";
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Values of `set-cookie`, the only header whose values cannot be joined. */
  readonly cookies?: readonly string[];
  readonly body: Uint8Array | string | AsyncIterable<Uint8Array>;
}

/**
 * An accepted protocol upgrade (exec, port-forward). `connect` writes the `101 Switching Protocols`, or the response of a target that
 * refuses, and everything after it. Only for requests with an `Upgrade` header.
 */
export interface UpgradeOutcome {
  readonly kind: "upgrade";
  connect(connection: {
    readonly socket: Duplex;
    /** Bytes received after the request's headers. */
    readonly head: Buffer;
    /** Raw path and query: parameters may occur more than once. */
    readonly url: string;
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
    /** Must be called with the status of the response: 101, or that of a refusal. */
    onStatus(status: number): void;
  }): void;
}

/** The result of a request. Failures are outcomes too: `handle` rejects only on a bug in Keelson. */
export type Outcome =
  | ObjectOutcome
  | ListOutcome
  | WatchOutcome
  | StatusOutcome
  | DocumentOutcome
  | RawOutcome
  | UpgradeOutcome;

/** Handles a request: authorization, admission, validation, storage. */
export type Handle = (request: PipelineRequest) => Promise<Outcome>;
