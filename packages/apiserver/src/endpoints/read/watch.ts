import { setImmediate as nextTurn } from "node:timers/promises";
import { apiVersionOf, type KubernetesObject } from "@keelson/api-machinery";
import type { Timer } from "@keelson/api-machinery/time";
import { forbiddenCause, notSupportedCause, type StatusCause } from "@keelson/api-machinery/validation";
import type { StoredObject, StoreEvent, StoreWatch } from "../../storage/store.ts";
import { DeletedObject } from "../../storage/objects/stored-object.ts";
import { type Call, prefixOf } from "../call.ts";
import { encodePlain, serve } from "../object/serve-object.ts";
import { invalidOptions, statusOf } from "../errors.ts";
import { untilRevision } from "./wait-for-revision.ts";
import type { EncodedObject, WatchedEvent, WatchOutcome, WatchSink } from "../outcome.ts";
import { isTrue } from "../request-info.ts";
import { integerOf, parseResourceVersion } from "./resource-version.ts";
import { type Selection, selectionOf } from "./selection.ts";
import { sliceSize } from "./slices.ts";

/** How often a quiet watch is told how far it has seen, where it asked for that. */
const bookmarkIntervalMs = 60_000;
/** A watch that names no time lasts this long; a random part spreads the reconnections. */
const defaultTimeoutSeconds = 1_800;
/** A last bookmark comes this long before the end, so that the client resumes from far on. */
const lastBookmarkMs = 2_000;

/** Answers a watch: checks it, and leaves opening it to who reads it. */
export function watchObjects(call: Call, onOpen: (watch: OpenWatch) => () => void): WatchOutcome {
  const { resource, query, store } = call;
  const selection = selectionOf(resource, query);
  const from = parseResourceVersion(query["resourceVersion"]);
  const sendsInitialEvents = initialEvents(query);
  const seconds = integerOf("timeoutSeconds", query["timeoutSeconds"]);
  const timeoutSeconds = seconds > 0 ? seconds : defaultTimeoutSeconds + call.random.below(defaultTimeoutSeconds);
  const plan: Plan = {
    // Without the state that is there, it starts from now unless it is told from where.
    from: from || (sendsInitialEvents === false ? store.revision : 0),
    startsWithState: sendsInitialEvents ?? (from === undefined || from === 0),
    marksInitialEnd: sendsInitialEvents === true && isTrue(query["allowWatchBookmarks"]),
    hasBookmarks: isTrue(query["allowWatchBookmarks"]),
    timeoutMs: timeoutSeconds * 1000,
    selection,
  };
  return {
    kind: "watch",
    resource,
    open(sink) {
      const watch = openWatch(call, plan, sink);
      const forget = onOpen(watch);
      watch.onClosed(forget);
      return { close: () => watch.close() };
    },
  };
}

interface Plan {
  readonly from: number;
  readonly startsWithState: boolean;
  readonly marksInitialEnd: boolean;
  readonly hasBookmarks: boolean;
  readonly timeoutMs: number;
  readonly selection: Selection;
}

/** A watch that runs, for who has to end it from the server's side. */
export interface OpenWatch {
  /** Ends it for the client, who may resume. */
  end(): void;
  close(): void;
  onClosed(callback: () => void): void;
}

function openWatch(call: Call, plan: Plan, sink: WatchSink): OpenWatch {
  const { store, clock, resource } = call;
  const prefix = prefixOf(call);
  const timers = new Set<Timer>();
  const closed: (() => void)[] = [];
  const left = new AbortController();
  let isOpen = true;
  let source: StoreWatch | undefined;

  const close = (): void => {
    if (!isOpen) return;
    isOpen = false;
    source?.close();
    left.abort();
    for (const timer of timers) timer.cancel();
    for (const callback of closed) callback();
  };
  const end = (): void => {
    if (!isOpen) return;
    close();
    sink.end();
  };
  const send = (events: readonly WatchedEvent[], isInitial = false): void => {
    if (isOpen && events.length > 0) sink.events(events, isInitial);
  };
  const fail = (error: unknown): void => {
    send([{ type: "ERROR", status: statusOf(error) }]);
    end();
  };
  const after = (delayMs: number, callback: () => void): void => {
    const timer = clock.setTimer(
      delayMs,
      () => {
        timers.delete(timer);
        if (isOpen) callback();
      },
      { background: true },
    );
    timers.add(timer);
  };
  const sendBookmark = (metadata: KubernetesObject["metadata"], isInitial: boolean): void => {
    const object: KubernetesObject = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
    send([{ type: "BOOKMARK", object: encodePlain(object) }], isInitial);
  };
  const bookmark = (): void => {
    // Before it has seen all that came before, it is no further than that.
    if (source === undefined || waiting !== undefined || source.isReplaying === true) return;
    // A watch from a revision that is still to come is not told of earlier ones.
    if (store.revision >= plan.from) sendBookmark({ resourceVersion: String(store.revision) }, false);
  };
  const bookmarkLater = (): void => {
    after(bookmarkIntervalMs, () => {
      bookmark();
      bookmarkLater();
    });
  };

  const serveObject = (stored: StoredObject): EncodedObject => serve(call, stored);
  const select = (events: readonly StoreEvent[], isReplay?: boolean): void => {
    const selected: WatchedEvent[] = [];
    for (const event of events) {
      const change = changeOf(event, plan.selection);
      if (change !== undefined) selected.push({ type: change.type, object: serveObject(change.stored) });
    }
    send(selected, isReplay);
  };
  /** What comes while the state is sent, which the watch begins with. */
  let waiting: StoreEvent[] | undefined;
  const sendState = (): void => {
    const state = store.pin();
    const held: StoreEvent[] = [];
    waiting = held;
    source = store.watch(prefix, state.revision, (events, isReplay) => {
      if (waiting === undefined) select(events, isReplay);
      else for (const event of events) waiting.push(event);
    });
    /** Sends a slice. Answers where the next one begins. */
    const sendSlice = (startAfter?: string): string | undefined => {
      const page = state.list(prefix, { limit: sliceSize, ...(startAfter === undefined ? {} : { startAfter }) });
      const matching = page.items.filter((stored) => plan.selection.matches(stored));
      send(
        matching.map((stored) => ({ type: "ADDED", object: serveObject(stored) })),
        true,
      );
      return page.next;
    };
    const finish = (): void => {
      const annotations = { "k8s.io/initial-events-end": "true" };
      if (plan.marksInitialEnd) sendBookmark({ resourceVersion: String(state.revision), annotations }, true);
      waiting = undefined;
      if (held.length > 0) select(held, false);
    };
    const sendRest = async (from: string): Promise<void> => {
      for (let next: string | undefined = from; next !== undefined; next = sendSlice(next)) {
        await nextTurn();
        if (!isOpen) return;
      }
      finish();
    };
    const release = (): void => state[Symbol.dispose]();
    try {
      const next = sendSlice();
      if (next === undefined) finish();
      else {
        sendRest(next).catch(fail).finally(release);
        return;
      }
    } catch (error) {
      release();
      throw error;
    }
    release();
  };

  /** A state that is not older than a revision may be still to come. */
  const sendStateWhenThere = (): void => {
    if (plan.from <= store.revision) {
      sendState();
      return;
    }
    untilRevision({ ...call, request: { ...call.request, signal: left.signal } }, plan.from)
      .then(() => {
        if (isOpen) sendState();
      })
      .catch(fail);
  };

  try {
    if (plan.startsWithState) sendStateWhenThere();
    else source = store.watch(prefix, plan.from, select, fail);
    // The sink may have closed it while the replay was delivered.
    if (!isOpen) source?.close();
  } catch (error) {
    fail(error);
  }
  if (isOpen) {
    after(plan.timeoutMs, end);
    if (plan.hasBookmarks) {
      bookmarkLater();
      if (plan.timeoutMs <= bookmarkIntervalMs)
        after(Math.max(plan.timeoutMs - lastBookmarkMs, plan.timeoutMs / 2), () => bookmark());
    }
  }
  return {
    end,
    close,
    onClosed(callback) {
      if (isOpen) closed.push(callback);
      else callback();
    },
  };
}

/** What a change is to a watcher with this selection; undefined when it does not concern it. */
export function changeOf(
  event: StoreEvent,
  selection: Selection,
): { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly stored: StoredObject } | undefined {
  const { previous, object } = event;
  const wasIn = previous !== undefined && selection.matches(previous);
  if (event.type === "delete") return wasIn ? { type: "DELETED", stored: object } : undefined;
  const isIn = selection.matches(object);
  if (isIn) return { type: wasIn ? "MODIFIED" : "ADDED", stored: object };
  if (!wasIn || previous === undefined) return undefined;
  // To this watcher it is gone: its last selected state, at the revision of the change.
  return { type: "DELETED", stored: new DeletedObject(previous, event.revision) };
}

function initialEvents(query: Readonly<Record<string, string | undefined>>): boolean | undefined {
  const value = query["sendInitialEvents"] ?? "";
  const match = query["resourceVersionMatch"] ?? "";
  const field = "resourceVersionMatch";
  const causes: StatusCause[] = [];
  if (value !== "" && match !== "NotOlderThan") {
    causes.push(forbiddenCause(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
  }
  if (match !== "") {
    if (value === "") {
      causes.push(forbiddenCause(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
    }
    if (match !== "NotOlderThan") causes.push(notSupportedCause(field, match, ["NotOlderThan"]));
    if (query["continue"]) causes.push(forbiddenCause(field, "resourceVersionMatch is forbidden when continue is provided"));
  }
  if (causes.length > 0) throw invalidOptions("ListOptions", ...causes);
  return value === "" ? undefined : isTrue(value);
}
