import {
  type DeepReadonly,
  isExpired,
  isJsonObject,
  isStatusError,
  type KubernetesObject,
  type Status,
  StatusError,
  type WatchEvent,
} from "@keelson/api-machinery";
import type { CachedObject } from "./cached-object.ts";

/**
 * What an informer does next. It starts in `list`, gathers pages there, and then stays in `watch` until the server no longer
 * knows the version that it stands at.
 *
 * ```text
 *   list --last page--> watch --event, end, failure--> watch
 *    ^ \--page--> list    |
 *    \------- 410 --------/
 * ```
 */
export type InformerState =
  | {
      readonly kind: "list";
      /** Absent: the newest state. Else anything not older than this, which the server may answer from memory. */
      readonly notOlderThan?: string;
      readonly continue?: string;
      readonly received: readonly CachedObject[];
    }
  | { readonly kind: "watch"; readonly resourceVersion: string };

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

/** The transition function of an informer: pure, so that every order of answers and failures can be tried. */
export function stepInformer(state: InformerState, input: InformerInput): InformerStep {
  return state.kind === "list" ? stepList(state, input) : stepWatch(state, input);
}

type Listing = Extract<InformerState, { kind: "list" }>;
type Watching = Extract<InformerState, { kind: "watch" }>;

function stepList(state: Listing, input: InformerInput): InformerStep {
  if (input.kind === "page") {
    const received = state.received.length === 0 ? input.items : [...state.received, ...input.items];
    if (input.continue !== undefined && input.continue !== "") {
      return { state: { ...state, received, continue: input.continue }, next: "go" };
    }
    return {
      state: { kind: "watch", resourceVersion: input.resourceVersion },
      effect: { kind: "replace", objects: received },
      next: "go",
    };
  }
  if (input.kind === "failed") {
    const { error } = input;
    // The version or the continue token is unknown to this server: ask for the newest state, once at once.
    const asked = state.notOlderThan !== undefined || state.continue !== undefined;
    if (asked && (isExpired(error) || isTooLarge(error))) return { state: initialInformerState, next: "go", error };
    const { received: _, continue: __, ...from } = state;
    return { state: { ...from, received: [] }, next: "wait", error };
  }
  return { state, next: "go" };
}

function stepWatch(state: Watching, input: InformerInput): InformerStep {
  if (input.kind === "ended") return { state, next: input.brief ? "wait" : "go" };
  if (input.kind === "failed") return failedWatch(state, input.error);
  if (input.kind === "page") return { state, next: "go" };
  const { type, object } = input.event;
  if (type === "ERROR") return failedWatch(state, errorOf(object));
  const resourceVersion = object.metadata?.resourceVersion;
  if (resourceVersion === undefined || resourceVersion === "") {
    const error = new Error(`a watch event ${type} has no metadata.resourceVersion`);
    return { state: initialInformerState, next: "wait", error };
  }
  const moved: InformerState = { kind: "watch", resourceVersion };
  if (type === "BOOKMARK") return { state: moved, next: "stay" };
  return { state: moved, effect: { kind: type === "DELETED" ? "remove" : "put", object }, next: "stay" };
}

function failedWatch(state: Watching, error: unknown): InformerStep {
  if (isExpired(error)) {
    return { state: { kind: "list", notOlderThan: state.resourceVersion, received: [] }, next: "go", error };
  }
  if (isTooLarge(error)) return { state: initialInformerState, next: "go", error };
  return { state, next: "wait", error };
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
