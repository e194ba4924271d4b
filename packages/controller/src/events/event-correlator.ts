import { createHash } from "node:crypto";
import type { Clock } from "@keelson/api-machinery/time";
import { TokenBucket } from "../queue/token-bucket.ts";

/** A reported event. Events with equal fields are repetitions. */
export interface ReportedEvent {
  /** Identifies the object: kind, namespace, name and uid. */
  readonly about: string;
  readonly type: string;
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** How to report an event. */
export type Correlation<S> =
  | { readonly kind: "create"; readonly note: string; readonly remember: (stored: S) => void }
  /** Repeats `stored`, for the `count`-th time. If that event was deleted, create another and remember it. */
  | {
      readonly kind: "repeat";
      readonly stored: S;
      readonly count: number;
      readonly note: string;
      readonly remember: (stored: S) => void;
    }
  /** The object has too many events. */
  | { readonly kind: "drop" };

interface Series<S> {
  stored: S | undefined;
  count: number;
  lastAt: number;
}

interface Group {
  /** Digests of the notes since `startedAt`. */
  notes: readonly string[];
  startedAt: number;
}

const capacity = 4096;
const seriesEndMs = 6 * 60_000;
const similarLimit = 10;
const similarWindowMs = 600_000;
const spamBurst = 25;
const spamPerSecond = 1 / 300;

/**
 * Limits the events of a controller, with client-go's rules: a repeated event increases the count of the first; more than 10
 * events within 600 s that differ only in their note are combined; and an object gets at most 25 events in a burst, then one every 300 s.
 */
export class EventCorrelator<S> {
  readonly #clock: Clock;
  readonly #series = new Map<string, Series<S>>();
  readonly #groups = new Map<string, Group>();
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  correlate(event: ReportedEvent): Correlation<S> {
    const now = this.#clock.monotonic();
    const bucket = touch(this.#buckets, digestOf(event.about), () => new TokenBucket(this.#clock, spamPerSecond, spamBurst));
    if (!bucket.tryTake()) return { kind: "drop" };
    const note = this.#isCombined(event, now) ? `(combined from similar events): ${event.note}` : event.note;
    const isCombined = note !== event.note;
    const key = digestOf([event.about, event.type, event.reason, event.action, isCombined ? null : note]);
    const series = touch(this.#series, key, (): Series<S> => ({ stored: undefined, count: 0, lastAt: now }));
    if (now - series.lastAt > seriesEndMs) {
      series.stored = undefined;
      series.count = 0;
    }
    series.lastAt = now;
    series.count++;
    const remember = (stored: S): void => void (series.stored = stored);
    // Also if the first one could not be stored.
    if (series.stored === undefined) return { kind: "create", note, remember };
    return { kind: "repeat", stored: series.stored, count: series.count, note, remember };
  }

  #isCombined(event: ReportedEvent, now: number): boolean {
    const key = digestOf([event.about, event.type, event.reason, event.action]);
    const group = touch(this.#groups, key, (): Group => ({ notes: [], startedAt: now }));
    if (now - group.startedAt > similarWindowMs) {
      group.notes = [];
      group.startedAt = now;
    }
    const note = digestOf(event.note);
    if (group.notes.includes(note)) return false;
    if (group.notes.length >= similarLimit) return true;
    group.notes = [...group.notes, note];
    return false;
  }
}

/** A short key, as thousands are kept: the fields of an event have up to some hundred bytes each. */
const digestOf = (fields: unknown): string =>
  createHash("sha256").update(JSON.stringify(fields)).digest("base64url").slice(0, 24);

/** The value of `key`, created if missing, as the most recently used. Evicts the oldest beyond the capacity. */
function touch<V>(map: Map<string, V>, key: string, create: () => V): V {
  let value = map.get(key);
  if (value === undefined) value = create();
  else map.delete(key);
  map.set(key, value);
  if (map.size > capacity) {
    const oldest = map.keys().next();
    if (oldest.done === false) map.delete(oldest.value);
  }
  return value;
}
