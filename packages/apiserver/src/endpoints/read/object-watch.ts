import { apiVersionOf, type KubernetesObject } from "@keelson/api-machinery";
import type { Timer } from "@keelson/api-machinery/time";
import type { PinnedState, StoreEvent, StoreWatch } from "../../storage/store.ts";
import { type Call, prefixOf } from "../call.ts";
import { statusOf } from "../errors.ts";
import { encodeUnstored, serveAll, serveWithoutWebhook } from "../object/serve-object.ts";
import type { EncodedObject, WatchedEvent, WatchSink } from "../outcome.ts";
import { addedChange, type Change, changesOf } from "./changes.ts";
import { matchingConverted, matchingObjects, selectsConverted } from "./converted-selection.ts";
import type { Selection } from "./selection.ts";
import { sliceBytes, sliceSizeOf } from "./slices.ts";
import { waitForState } from "./wait-for-revision.ts";

/** Interval of bookmarks on a quiet watch that requested them. */
const bookmarkIntervalMs = 60_000;
/** A final bookmark precedes the timeout by this much, so that the client resumes from a recent revision. */
const lastBookmarkMs = 2_000;

/** What a watch sends. */
export interface WatchPlan {
  /** Changes after this revision are sent; with `startsWithState`, the initial state is not older than it. */
  readonly from: number;
  /** Whether the watch starts with the existing objects. */
  readonly startsWithState: boolean;
  /** Whether a bookmark marks the end of the initial state. */
  readonly marksInitialEnd: boolean;
  readonly hasBookmarks: boolean;
  readonly timeoutMs: number;
  readonly selection: Selection;
}

/**
 * A watch of a collection: sends the initial state (if the plan has one), then changes, then ends at its timeout. Long initial states are
 * sent in slices; changes during that time are held back until it is complete.
 */
export class ObjectWatch {
  readonly #call: Call;
  readonly #plan: WatchPlan;
  readonly #sink: WatchSink;
  readonly #prefix: string;
  readonly #timers = new Set<Timer>();
  readonly #onClosed: (() => void)[] = [];
  readonly #aborted = new AbortController();
  #isOpen = true;
  #source: StoreWatch | undefined;
  /** Objects that a conversion webhook has yet to convert, and what follows them. Undefined if no webhook has been called. */
  #converting: Promise<void> | undefined;
  /** Changes held back while the initial state is being sent. */
  #held: StoreEvent[] | undefined;

  constructor(call: Call, plan: WatchPlan, sink: WatchSink) {
    this.#call = call;
    this.#plan = plan;
    this.#sink = sink;
    this.#prefix = prefixOf(call);
  }

  /** Starts sending. Failures are sent as an ERROR event. */
  start(): void {
    const { store } = this.#call;
    const { startsWithState, from, timeoutMs, hasBookmarks } = this.#plan;
    try {
      if (startsWithState) this.#startWithState();
      else
        this.#source = store.watch(
          this.#prefix,
          from,
          (events, isReplay) => this.#sendChanges(events, isReplay),
          (error) => this.#fail(error),
        );
      // The sink may have closed the watch during the replay.
      if (!this.#isOpen) this.#source?.close();
    } catch (error) {
      this.#fail(error);
    }
    if (!this.#isOpen) return;
    this.#after(timeoutMs, () => this.end());
    if (!hasBookmarks) return;
    this.#scheduleBookmark();
    if (timeoutMs <= bookmarkIntervalMs) {
      this.#after(Math.max(timeoutMs - lastBookmarkMs, timeoutMs / 2), () => this.#sendCurrentBookmark());
    }
  }

  /** Ends the watch from the server's side. */
  end(): void {
    if (!this.#isOpen) return;
    this.close();
    this.#sink.end();
  }

  /** Stops sending. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#source?.close();
    this.#aborted.abort();
    for (const timer of this.#timers) timer.cancel();
    for (const callback of this.#onClosed) callback();
  }

  /** Calls back when the watch closes, immediately if it has. */
  onClosed(callback: () => void): void {
    if (this.#isOpen) this.#onClosed.push(callback);
    else callback();
  }

  #fail(error: unknown): void {
    this.#send([{ type: "ERROR", status: statusOf(error) }]);
    this.end();
  }

  #send(events: readonly WatchedEvent[], isInitial = false): void {
    if (this.#isOpen && events.length > 0) this.#sink.events(events, isInitial);
  }

  #sendChanges(events: readonly StoreEvent[], isReplay?: boolean): void {
    const { selection } = this.#plan;
    const { resource, sharedEvents } = this.#call;
    if (!selection.isSelective && resource.convertByWebhook === undefined) {
      this.#send(
        sharedEvents.of(events, resource, () => this.#eventsOf(events)),
        isReplay,
      );
      return;
    }
    if (!selectsConverted(this.#call, selection)) {
      this.#sendServed(
        changesOf(events, (stored) => selection.matches(stored)),
        isReplay,
      );
      return;
    }
    const states = events.flatMap(({ previous, object }) => (previous === undefined ? [object] : [previous, object]));
    this.#inOrder(async () => {
      const matching = await matchingConverted(this.#call, selection, states);
      const changes = changesOf(events, (stored) => matching.has(stored));
      this.#sendEncoded(changes, await this.#serve(changes), isReplay);
    });
  }

  /** The events of changes to objects that no webhook converts and of which all are selected. */
  #eventsOf(changes: readonly StoreEvent[]): readonly WatchedEvent[] {
    return changes.map(({ type, previous, object }) => ({
      type: type === "delete" ? "DELETED" : previous === undefined ? "ADDED" : "MODIFIED",
      object: serveWithoutWebhook(this.#call, object),
    }));
  }

  /** Sends objects in the requested version. Those that a webhook converts are sent in order, once it has responded. */
  #sendServed(changes: readonly Change[], isInitial = false): void {
    if (changes.length === 0) return;
    const served = this.#serve(changes);
    if (served instanceof Promise) this.#inOrder(async () => this.#sendEncoded(changes, await served, isInitial));
    else this.#sendEncoded(changes, served, isInitial);
  }

  #serve(changes: readonly Change[]): ReturnType<typeof serveAll> {
    return serveAll(
      this.#call,
      changes.map(({ stored }) => stored),
    );
  }

  #sendEncoded(changes: readonly Change[], objects: readonly EncodedObject[], isInitial = false): void {
    const events = changes.flatMap(({ type }, index) => {
      const object = objects[index];
      return object === undefined ? [] : [{ type, object }];
    });
    this.#send(events, isInitial);
  }

  /** Runs after everything that waits for a conversion. */
  #inOrder(action: () => void | Promise<void>): void {
    this.#converting = (this.#converting ?? Promise.resolve()).then(action).catch((error: unknown) => this.#fail(error));
  }

  #startWithState(): void {
    const request = { ...this.#call.request, signal: this.#aborted.signal };
    const waiting = waitForState({ ...this.#call, request }, this.#plan.from);
    if (waiting === undefined) {
      this.#sendState();
      return;
    }
    waiting
      .then(() => {
        if (this.#isOpen) this.#sendState();
      })
      .catch((error: unknown) => this.#fail(error));
  }

  #sendState(): void {
    const { store } = this.#call;
    const state = store.pin();
    this.#held = [];
    this.#source = store.watch(this.#prefix, state.revision, (events, isReplay) => {
      if (this.#held === undefined) this.#sendChanges(events, isReplay);
      else for (const event of events) this.#held.push(event);
    });
    const release = (): void => state[Symbol.dispose]();
    try {
      const next = this.#sendSlice(state);
      if (next !== undefined) {
        this.#sendRest(state, next)
          .catch((error: unknown) => this.#fail(error))
          .finally(release);
        return;
      }
      this.#finishState(state);
    } catch (error) {
      release();
      throw error;
    }
    release();
  }

  /** Sends a slice of the state. Returns where the next one starts. */
  #sendSlice(state: PinnedState, startAfter?: string): string | undefined {
    const slice = { limit: sliceSizeOf(this.#plan.selection), maxBytes: sliceBytes };
    const page = state.list(this.#prefix, startAfter === undefined ? slice : { ...slice, startAfter });
    const matching = matchingObjects(this.#call, this.#plan.selection, page.items);
    if (matching instanceof Promise) {
      this.#inOrder(async () => {
        const changes = (await matching).map(addedChange);
        this.#sendEncoded(changes, await this.#serve(changes), true);
      });
    } else this.#sendServed(matching.map(addedChange), true);
    return page.next;
  }

  async #sendRest(state: PinnedState, from: string): Promise<void> {
    for (let next: string | undefined = from; next !== undefined; next = this.#sendSlice(state, next)) {
      await this.#call.turns.next();
      if (!this.#isOpen) return;
    }
    this.#finishState(state);
  }

  #finishState(state: PinnedState): void {
    const annotations = { "k8s.io/initial-events-end": "true" };
    if (this.#plan.marksInitialEnd) this.#sendBookmark({ resourceVersion: String(state.revision), annotations }, true);
    const held = this.#held ?? [];
    this.#held = undefined;
    if (held.length > 0) this.#sendChanges(held, false);
  }

  #sendBookmark(metadata: KubernetesObject["metadata"], isInitial: boolean): void {
    const { resource } = this.#call;
    const object: KubernetesObject = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
    const send = (): void => this.#send([{ type: "BOOKMARK", object: encodeUnstored(object) }], isInitial);
    if (this.#converting === undefined) send();
    else this.#inOrder(send);
  }

  #sendCurrentBookmark(): void {
    const { revision } = this.#call.store;
    // Until the initial state or the replay is complete, the client has not seen everything up to this revision.
    if (this.#source === undefined || this.#held !== undefined || this.#source.isReplaying === true) return;
    // A watch from a future revision must not send an earlier one.
    if (revision >= this.#plan.from) this.#sendBookmark({ resourceVersion: String(revision) }, false);
  }

  #scheduleBookmark(): void {
    this.#after(bookmarkIntervalMs, () => {
      this.#sendCurrentBookmark();
      this.#scheduleBookmark();
    });
  }

  #after(delayMs: number, callback: () => void): void {
    const timer = this.#call.clock.setTimer(
      delayMs,
      () => {
        this.#timers.delete(timer);
        if (this.#isOpen) callback();
      },
      { background: true },
    );
    this.#timers.add(timer);
  }
}
