import type { Duplex } from "node:stream";
import type { DeepReadonly, KubernetesObject, Status, StatusError } from "@keelson/api-machinery";
import type { ApiRequest, ListMeta } from "@keelson/api-machinery/transport";
import type { ServedResource, UserInfo } from "../registry/served-resource.ts";

/** A request whose sender is known, as the pipeline takes it from HTTP or from a transport in process. */
export interface PipelineRequest extends ApiRequest {
  readonly user: UserInfo;
  /** The `User-Agent`: what stands before its first `/` is the default field manager. */
  readonly userAgent?: string | undefined;
  /**
   * Paths of fields that occur twice in the body's text (`metadata.labels.app`), which only its parser can see. They are warned of
   * or refused, as `fieldValidation` says.
   */
  readonly duplicateFields?: readonly string[];
  /**
   * What is wrong with the form of the request, where HTTP could not make sense of it: its media types or its body. It is told to who may
   * send such a request to a resource that exists; the others get to know no more than that.
   */
  readonly fault?: StatusError | undefined;
  /** Length of the body as it came, where it came as bytes. Beyond 3 MiB it is refused (413). */
  readonly bodyBytes?: number;
}

/**
 * An object in the version that was asked for: as bytes to send on, and parsed. Both are made when first asked for, then kept,
 * and never change. A `StoredObject` is one.
 */
export interface EncodedObject {
  /** UTF-8 JSON, beginning with `{"apiVersion":...,"kind":...,"metadata":{`. */
  readonly bytes: Uint8Array;
  readonly object: DeepReadonly<KubernetesObject>;
}

/** One object: the answer to get, create, update, patch, to a delete that waits, and to reviews. */
export interface ObjectOutcome {
  readonly kind: "object";
  /** 200; 201 after a create. */
  readonly status: number;
  readonly object: EncodedObject;
  readonly resource: ServedResource;
  /** `scale` where the object is a Scale and not the resource's own kind, and so on; Tables are for `""` and `status`. */
  readonly subresource: string;
  /** Each becomes a header `warning: 299 - "text"`. */
  readonly warnings?: readonly string[];
}

/** A list (`resource.listKind`). */
export interface ListOutcome {
  readonly kind: "list";
  readonly items: readonly EncodedObject[];
  readonly listMeta: ListMeta;
  readonly resource: ServedResource;
  /**
   * Items of built-in kinds are sent without `apiVersion` and `kind`: replace this many bytes at the start of every item's
   * `bytes` by one `{`. 0: send the bytes as they are.
   */
  readonly itemSkip: number;
  readonly warnings?: readonly string[];
}

/** A change as one watcher sees it, selectors applied. */
export type WatchedEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: EncodedObject }
  | { readonly type: "ERROR"; readonly status: Status };

/** Takes what a watch brings. Neither function may throw or block. */
export interface WatchSink {
  /** `isInitial`: what was there when the watch began, which all comes before anything else and counts for no limit. */
  events(batch: readonly WatchedEvent[], isInitial?: boolean): void;
  /** The server ended the watch: its time is over, it failed (an ERROR came before) or the server stops. Called at most once. */
  end(): void;
}

/**
 * A watch that was granted. `open` is called once; events come to `sink` from then on, also before it returns. The sink's owner
 * bounds what it holds: when its peer is too slow it calls `close` and ends the stream; the client resumes.
 */
export interface WatchOutcome {
  readonly kind: "watch";
  readonly warnings?: readonly string[];
  readonly resource: ServedResource;
  open(sink: WatchSink): { close(): void };
}

/** A Status: every failure, and the answer to a delete that is done. The HTTP status is `status.code`, else 200. */
export interface StatusOutcome {
  readonly kind: "status";
  readonly status: Status;
  readonly warnings?: readonly string[];
}

/** A JSON document that is not an object of a served kind: discovery, OpenAPI, version. */
export interface DocumentOutcome {
  readonly kind: "document";
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Anything else: health checks, metrics, logs. Sent as it is; text as UTF-8. */
export interface RawOutcome {
  readonly kind: "raw";
  readonly status: number;
  /** Names in lower case; `content-type` among them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string | AsyncIterable<Uint8Array>;
}

/**
 * The connection itself: the client asked to speak another protocol on it (`Upgrade`), as for exec, and may. Who answers this
 * writes the `101 Switching Protocols` and everything after it. Only for requests that ask for an upgrade.
 */
export interface UpgradeOutcome {
  readonly kind: "upgrade";
  connect(connection: {
    readonly socket: Duplex;
    /** What came after the request already. */
    readonly head: Buffer;
    /** Path and query as they came: parameters may occur more than once. */
    readonly url: string;
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  }): void;
}

/** What the pipeline answers. Errors are answers too: `handle` rejects only where Keelson has a bug that it can't contain. */
export type Outcome =
  | ObjectOutcome
  | ListOutcome
  | WatchOutcome
  | StatusOutcome
  | DocumentOutcome
  | RawOutcome
  | UpgradeOutcome;

/** From a request to its answer: authorization, admission, validation, storage. */
export type Handle = (request: PipelineRequest) => Promise<Outcome>;
