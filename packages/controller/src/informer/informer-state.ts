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
import type { CachedObject } from "../cache/cached-object.ts";
import { gatheredObjects, type StreamedObjects } from "./streamed-objects.ts";

/**
 * What an informer does next. It starts in `list`, gathers pages there, and then stays in `watch` until the server no longer
 * knows the version that it stands at. One that streams starts in `stream` instead: a watch that begins with all there is
 * (KEP-3157) and goes on as the watch of what changes. `list` is its way where the server cannot do that.
 *
 * ```text
 *   list --last page--> watch --event, end, failure--> watch
 *    ^ \--page--> list   ^ |
 *    |                   | |
 *   refused, ended    marked |
 *    |                   | |
 *   stream --------------/ |
 *    ^ \--event--> stream  |
 *    \-------- 410 --------/   (to list, of one that does not stream)
 * ```
 */
export type InformerState =
  | {
      readonly kind: "list";
      /** Absent: the newest state. Else anything not older than this, which the server may answer from memory. */
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

/** What happened. */
export type InformerInput =
  | {
      readonly kind: "page";
      readonly items: readonly CachedObject[];
      readonly resourceVersion: string;
      readonly continue?: string | undefined;
    }
  | { readonly kind: "event"; readonly event: WatchEvent<DeepReadonly<KubernetesObject>> }
  /** The server ended the watch. `brief`: at once and without an event, which is no healthy end. */
  | { readonly kind: "ended"; readonly brief: boolean }
  /** A stream brought nothing for so long that the server is taken not to know what was asked. */
  | { readonly kind: "silent" }
  | { readonly kind: "failed"; readonly error: unknown };

/** What becomes of the store. */
export type StoreEffect =
  | { readonly kind: "replace"; readonly objects: readonly CachedObject[] }
  | { readonly kind: "put"; readonly object: CachedObject }
  | { readonly kind: "remove"; readonly object: CachedObject };

/** The outcome of one {@link stepInformer}. */
export interface InformerStep {
  readonly state: InformerState;
  readonly effect?: StoreEffect;
  /** `stay`: go on reading the same watch. `go`: do what `state` says. `wait`: do it after a backoff. */
  readonly next: "stay" | "go" | "wait";
  /** What failed, for the log. */
  readonly error?: unknown;
}

/**
 * The first list is of the newest state: an operator that starts must not act on what a server's memory held a while ago.
 */
export const initialInformerState: InformerState = { kind: "list", received: [] };

/** {@link initialInformerState} of an informer that streams. */
export const initialStreamState: InformerState = { kind: "stream", streams: true };

/** The annotation of the bookmark behind the last object that was there when a stream began. */
const initialEventsEnd = "k8s.io/initial-events-end";

/** The transition function of an informer: pure, so that every order of answers and failures can be tried. */
export function stepInformer(state: InformerState, input: InformerInput): InformerStep {
  return state.kind === "list"
    ? stepList(state, input)
    : state.kind === "stream"
      ? stepStream(state, input)
      : stepWatch(state, input);
}

type Listing = Extract<InformerState, { kind: "list" }>;
type Streaming = Extract<InformerState, { kind: "stream" }>;
type Watching = Extract<InformerState, { kind: "watch" }>;

function stepList(state: Listing, input: InformerInput): InformerStep {
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
    // The version or the continue token is unknown to this server: ask for the newest state, once at once.
    const asked = state.notOlderThan !== undefined || state.continue !== undefined;
    if (asked && (isExpired(error) || isTooLarge(error))) return { state: begin(state), next: "go", error };
    const { received: _, continue: __, ...from } = state;
    return { state: { ...from, received: [] }, next: "wait", error };
  }
  return { state, next: "go" };
}

function stepStream(state: Streaming, input: InformerInput): InformerStep {
  const { received: _, ...anew } = state;
  const { notOlderThan } = state;
  const from = notOlderThan === undefined ? {} : { notOlderThan };
  // Told for good: this server lists.
  if (input.kind === "silent") return { state: { kind: "list", ...from, received: [] }, next: "go" };
  // Whatever ends streams early may do so every time; a list makes progress.
  if (input.kind === "ended") {
    return { state: { kind: "list", ...from, received: [], streams: true }, next: input.brief ? "wait" : "go" };
  }
  if (input.kind === "page") return { state, next: "go" };
  const error = input.kind === "failed" ? input.error : input.event.type === "ERROR" ? errorOf(input.event.object) : undefined;
  if (error !== undefined) {
    if (isRefusal(error)) return { state: { kind: "list", ...from, received: [] }, next: "go" };
    const isUnknown = notOlderThan !== undefined && (isExpired(error) || isTooLarge(error));
    return isUnknown ? { state: begin(state), next: "go", error } : { state: anew, next: "wait", error };
  }
  if (input.kind === "failed") return { state: anew, next: "wait", error: input.error };
  const { type, object } = input.event;
  if (type !== "BOOKMARK") {
    const received = { object, isGone: type === "DELETED", before: state.received };
    return { state: { ...state, received }, next: "stay" };
  }
  if (object.metadata?.annotations?.[initialEventsEnd] !== "true") return { state, next: "stay" };
  const resourceVersion = object.metadata.resourceVersion ?? "";
  if (resourceVersion === "") {
    return { state: anew, next: "wait", error: new Error("the bookmark after the initial events has no resourceVersion") };
  }
  return {
    state: { kind: "watch", resourceVersion, streams: true },
    effect: { kind: "replace", objects: gatheredObjects(state.received) },
    next: "stay",
  };
}

function stepWatch(state: Watching, input: InformerInput): InformerStep {
  if (input.kind === "ended") return { state, next: input.brief ? "wait" : "go" };
  if (input.kind === "failed") return failedWatch(state, input.error);
  if (input.kind !== "event") return { state, next: "go" };
  const { type, object } = input.event;
  if (type === "ERROR") return failedWatch(state, errorOf(object));
  const resourceVersion = object.metadata?.resourceVersion;
  if (resourceVersion === undefined || resourceVersion === "") {
    const error = new Error(`a watch event ${type} has no metadata.resourceVersion`);
    return { state: begin(state), next: "wait", error };
  }
  const moved: InformerState = { kind: "watch", resourceVersion, ...streamsAs(state) };
  if (type === "BOOKMARK") return { state: moved, next: "stay" };
  return { state: moved, effect: { kind: type === "DELETED" ? "remove" : "put", object }, next: "stay" };
}

function failedWatch(state: Watching, error: unknown): InformerStep {
  if (isExpired(error)) {
    const from = { notOlderThan: state.resourceVersion };
    return { state: { ...begin(state), ...from }, next: "go", error };
  }
  if (isTooLarge(error)) return { state: begin(state), next: "go", error };
  return { state, next: "wait", error };
}

/** From the newest state, the way that this informer takes. */
function begin(state: InformerState): Listing | Streaming {
  return state.streams ? { kind: "stream", streams: true } : { kind: "list", received: [] };
}

function streamsAs(state: InformerState): { readonly streams?: true } {
  return state.streams ? { streams: true } : {};
}

/** The server knows the request and will not have it: it does not stream, or not this kind. */
function isRefusal(error: unknown): boolean {
  return (
    isStatusError(error, "BadRequest") ||
    isStatusError(error, "Invalid") ||
    isStatusError(error, "MethodNotAllowed") ||
    isStatusError(error, "NotAcceptable")
  );
}

/** The server is behind the version asked for: restored from a backup, or another replica. */
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
    : new Error("a watch event ERROR without a Status");
}
