import {
  type DeepReadonly,
  isExpired,
  isJsonObject,
  isStatusError,
  type KubernetesObject,
  type Status,
  StatusError,
} from "@keelson/api-machinery";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import { TransportError } from "@keelson/client";
import type { CachedObject } from "../cache/cached-object.ts";
import { collectObjects, type StreamedObjects } from "./streamed-objects.ts";

/**
 * The state of an informer. It starts in `list`, collects pages there, and then stays in `watch` until the server has compacted
 * its version. With streaming it starts in `stream` instead: a watch that begins with the existing objects
 * (KEP-3157) and continues with changes. If the server does not support streams, it falls back to `list`.
 *
 * ```text
 *   list --last page--> watch --event, end, failure--> watch
 *    ^ \--page--> list   ^ |
 *    |                   | |
 *  rejected, ended  complete |
 *    |                   | |
 *   stream --------------/ |
 *    ^ \--event--> stream  |
 *    \-------- 410 --------/   (without streaming: to list)
 * ```
 */
export type InformerState =
  | {
      readonly kind: "list";
      /** Absent: the newest state. Otherwise any state not older than this, which the server may serve from its cache. */
      readonly notOlderThan?: string;
      readonly continue?: string;
      readonly received: readonly CachedObject[];
      readonly streams?: true;
    }
  | {
      readonly kind: "stream";
      readonly notOlderThan?: string;
      readonly received?: StreamedObjects | undefined;
      readonly streams: true;
    }
  | { readonly kind: "watch"; readonly resourceVersion: string; readonly streams?: true };

/** An input of {@link stepInformer}. */
export type InformerInput =
  | {
      readonly kind: "page";
      readonly items: readonly CachedObject[];
      readonly resourceVersion: string;
      readonly continue?: string | undefined;
    }
  | { readonly kind: "event"; readonly event: WatchEvent<DeepReadonly<KubernetesObject>> }
  /** The server ended the watch. `brief`: immediately and without an event, which indicates a problem. */
  | { readonly kind: "ended"; readonly brief: boolean }
  /** The initial stream timed out: the server probably does not support it. */
  | { readonly kind: "silent" }
  | { readonly kind: "failed"; readonly error: unknown };

/** A change to the store. */
export type StoreEffect =
  | { readonly kind: "replace"; readonly objects: readonly CachedObject[] }
  | { readonly kind: "put"; readonly object: CachedObject }
  | { readonly kind: "remove"; readonly object: CachedObject };

/** The outcome of one {@link stepInformer}. */
export interface InformerStep {
  readonly state: InformerState;
  readonly effect?: StoreEffect;
  /** `stay`: continue reading the watch. `go`: act on the new state immediately. `wait`: act on it after a backoff. */
  readonly next: "stay" | "go" | "wait";
  /** The failure, for the log. */
  readonly error?: unknown;
}

/**
 * The first list reads the newest state: an operator that starts must not act on a stale cache of the server.
 */
export const initialInformerState: InformerState = { kind: "list", received: [] };

/** The initial state with streaming. */
export const initialStreamState: InformerState = { kind: "stream", streams: true };

/** Annotation of the bookmark that ends the initial events of a stream. */
const initialEventsEnd = "k8s.io/initial-events-end";

/** The transition function of an informer. It is pure, so that tests can try every order of responses and failures. */
export function stepInformer(state: InformerState, input: InformerInput): InformerStep {
  return state.kind === "list"
    ? stepList(state, input)
    : state.kind === "stream"
      ? stepStream(state, input)
      : stepWatch(state, input);
}

type ListState = Extract<InformerState, { kind: "list" }>;
type StreamState = Extract<InformerState, { kind: "stream" }>;
type WatchState = Extract<InformerState, { kind: "watch" }>;

function stepList(state: ListState, input: InformerInput): InformerStep {
  if (input.kind === "page") {
    const received = state.received.length === 0 ? input.items : [...state.received, ...input.items];
    if (input.continue !== undefined && input.continue !== "") {
      return { state: { ...state, received, continue: input.continue }, next: "go" };
    }
    return {
      state: { kind: "watch", resourceVersion: input.resourceVersion, ...streamsAs(state) },
      effect: { kind: "replace", objects: received },
      next: "go",
    };
  }
  if (input.kind === "failed") {
    const { error } = input;
    // This server does not know the version or the continue token: request the newest state, once, immediately.
    const isPositioned = state.notOlderThan !== undefined || state.continue !== undefined;
    if (isPositioned && (isExpired(error) || isTooLarge(error))) return { state: restart(state), next: "go", error };
    const { received: _, continue: __, ...from } = state;
    return { state: { ...from, received: [] }, next: "wait", error };
  }
  return { state, next: "go" };
}

function stepStream(state: StreamState, input: InformerInput): InformerStep {
  const { received: _, ...reset } = state;
  const { notOlderThan } = state;
  const from = notOlderThan === undefined ? {} : { notOlderThan };
  // Permanently: this server does not stream.
  if (input.kind === "silent") return { state: { kind: "list", ...from, received: [] }, next: "go" };
  // Streams may always be ended early; a list makes progress.
  if (input.kind === "ended") {
    return { state: { kind: "list", ...from, received: [], streams: true }, next: input.brief ? "wait" : "go" };
  }
  if (input.kind === "page") return { state, next: "go" };
  const error = input.kind === "failed" ? input.error : input.event.type === "ERROR" ? errorOf(input.event.object) : undefined;
  if (error !== undefined) {
    if (isRejected(error)) return { state: { kind: "list", ...from, received: [] }, next: "go" };
    const isUnknown = notOlderThan !== undefined && (isExpired(error) || isTooLarge(error));
    return isUnknown ? { state: restart(state), next: "go", error } : { state: reset, next: "wait", error };
  }
  if (input.kind === "failed") return { state: reset, next: "wait", error: input.error };
  const { type, object } = input.event;
  if (type !== "BOOKMARK") {
    const received = { object, isDeleted: type === "DELETED", before: state.received };
    return { state: { ...state, received }, next: "stay" };
  }
  if (object.metadata?.annotations?.[initialEventsEnd] !== "true") return { state, next: "stay" };
  const resourceVersion = object.metadata.resourceVersion ?? "";
  if (resourceVersion === "") {
    return {
      state: reset,
      next: "wait",
      error: new TransportError("InvalidResponse", "bookmark at the end of the initial events has no resourceVersion"),
    };
  }
  return {
    state: { kind: "watch", resourceVersion, streams: true },
    effect: { kind: "replace", objects: collectObjects(state.received) },
    next: "stay",
  };
}

function stepWatch(state: WatchState, input: InformerInput): InformerStep {
  if (input.kind === "ended") return { state, next: input.brief ? "wait" : "go" };
  if (input.kind === "failed") return failedWatch(state, input.error);
  if (input.kind !== "event") return { state, next: "go" };
  const { type, object } = input.event;
  if (type === "ERROR") return failedWatch(state, errorOf(object));
  const resourceVersion = object.metadata?.resourceVersion;
  if (resourceVersion === undefined || resourceVersion === "") {
    const error = new TransportError("InvalidResponse", `watch event ${type} has no metadata.resourceVersion`);
    return { state: restart(state), next: "wait", error };
  }
  const moved: InformerState = { kind: "watch", resourceVersion, ...streamsAs(state) };
  if (type === "BOOKMARK") return { state: moved, next: "stay" };
  return { state: moved, effect: { kind: type === "DELETED" ? "remove" : "put", object }, next: "stay" };
}

function failedWatch(state: WatchState, error: unknown): InformerStep {
  if (isExpired(error)) {
    const from = { notOlderThan: state.resourceVersion };
    return { state: { ...restart(state), ...from }, next: "go", error };
  }
  if (isTooLarge(error)) return { state: restart(state), next: "go", error };
  return { state, next: "wait", error };
}

/** Starts again from the newest state. */
function restart(state: InformerState): ListState | StreamState {
  return state.streams ? { kind: "stream", streams: true } : { kind: "list", received: [] };
}

function streamsAs(state: InformerState): { readonly streams?: true } {
  return state.streams ? { streams: true } : {};
}

/** Whether the server rejects the request itself: it does not support streams, or not for this kind. */
function isRejected(error: unknown): boolean {
  return (
    isStatusError(error, "BadRequest") ||
    isStatusError(error, "Invalid") ||
    isStatusError(error, "MethodNotAllowed") ||
    isStatusError(error, "NotAcceptable")
  );
}

/** Whether the server is behind the requested version: it was restored from a backup, or is another replica. */
function isTooLarge(error: unknown): boolean {
  if (!isStatusError(error)) return false;
  const causes = error.status.details?.causes ?? [];
  return (
    causes.some((cause) => cause.reason === "ResourceVersionTooLarge") || /too large resource version/i.test(error.message)
  );
}

function errorOf(object: unknown): unknown {
  return isJsonObject(object)
    ? new StatusError(object as unknown as Status)
    : new TransportError("InvalidResponse", "watch event ERROR has no Status");
}
