import {
  apiVersionOf,
  forbiddenCause,
  type KubernetesObject,
  notSupportedCause,
  type StatusCause,
  type Timer,
} from "@keelson/api-machinery";
import type { StoredObject, StoreEvent } from "../storage/store.ts";
import { DeletedObject } from "../storage/stored-object.ts";
import { type Call, prefixOf } from "./call.ts";
import { encodePlain, serve } from "./encoded.ts";
import { invalidOptions, statusOf, tooLargeResourceVersion } from "./errors.ts";
import type { EncodedObject, WatchedEvent, WatchOutcome, WatchSink } from "./outcome.ts";
import { isTrue } from "./request-info.ts";
import { integerOf, parseResourceVersion } from "./resource-version.ts";
import { type Selection, selectionOf } from "./selection.ts";

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
  if (from !== undefined && from > store.revision) throw tooLargeResourceVersion(from, store.revision);
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
  let isOpen = true;
  let source: { close(): void } | undefined;

  const close = (): void => {
    if (!isOpen) return;
    isOpen = false;
    source?.close();
    for (const timer of timers) timer.cancel();
    for (const callback of closed) callback();
  };
  const end = (): void => {
    if (!isOpen) return;
    close();
    sink.end();
  };
  const send = (events: readonly WatchedEvent[]): void => {
    if (isOpen && events.length > 0) sink.events(events);
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
  const bookmark = (annotations?: Record<string, string>): void => {
    const metadata = { resourceVersion: String(store.revision), ...(annotations ? { annotations } : {}) };
    const object: KubernetesObject = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
    send([{ type: "BOOKMARK", object: encodePlain(object) }]);
  };
  const bookmarkLater = (): void => {
    after(bookmarkIntervalMs, () => {
      bookmark();
      bookmarkLater();
    });
  };

  const serveObject = (stored: StoredObject): EncodedObject => serve(call, stored);
  const select = (events: readonly StoreEvent[]): void => {
    const selected: WatchedEvent[] = [];
    for (const event of events) {
      const change = changeOf(event, plan.selection);
      if (change !== undefined) selected.push({ type: change.type, object: serveObject(change.stored) });
    }
    send(selected);
  };

  try {
    let { from } = plan;
    if (plan.startsWithState) {
      const page = store.list(prefix);
      from = page.revision;
      send(
        page.items
          .filter((stored) => plan.selection.matches(stored))
          .map((stored) => ({ type: "ADDED", object: serveObject(stored) })),
      );
      if (plan.marksInitialEnd) bookmark({ "k8s.io/initial-events-end": "true" });
    }
    if (isOpen) source = store.watch(prefix, from, select);
    // The sink may have closed it while the replay was delivered.
    if (!isOpen) source?.close();
  } catch (error) {
    send([{ type: "ERROR", status: statusOf(error) }]);
    end();
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
