import type { Clock } from "@keelson/api-machinery/time";
import { TokenBucket } from "../queue/token-bucket.ts";

/** An event as it is reported, with what makes two of them the same. */
export interface ReportedEvent {
  /** The object that it is about: its kind, namespace, name and uid. */
  readonly about: string;
  readonly type: string;
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** What is to be done about a reported event. */
export type Correlation<S> =
  | { readonly kind: "create"; readonly note: string; readonly remember: (stored: S) => void }
  /** It repeats the one that `stored` is, `count` times by now; where that is gone, another is to be remembered. */
  | {
      readonly kind: "repeat";
      readonly stored: S;
      readonly count: number;
      readonly note: string;
      readonly remember: (stored: S) => void;
    }
  /** Too many about this object. */
  | { readonly kind: "drop" };

interface Series<S> {
  stored: S | undefined;
  count: number;
  lastAt: number;
}

interface Group {
  readonly notes: Set<string>;
  startedAt: number;
}

const capacity = 4096;
const seriesEndMs = 6 * 60_000;
const similarLimit = 10;
const similarWindowMs = 600_000;
const spamBurst = 25;
const spamPerSecond = 1 / 300;

/**
 * Keeps a controller that repeats itself from filling the API with events, with client-go's limits: the same event again is a
 * count in the first; more than 10 that differ only in their note, within 600 s, become one; and of one object no more than
 * 25 at once and one every 300 s after that.
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
    const bucket = touch(this.#buckets, event.about, () => new TokenBucket(this.#clock, spamPerSecond, spamBurst));
    if (!bucket.tryTake()) return { kind: "drop" };
    const note = this.#isCrowded(event, now) ? `(combined from similar events): ${event.note}` : event.note;
    const isCombined = note !== event.note;
    const key = JSON.stringify([event.about, event.type, event.reason, event.action, isCombined ? null : note]);
    const series = touch(this.#series, key, (): Series<S> => ({ stored: undefined, count: 0, lastAt: now }));
    if (now - series.lastAt > seriesEndMs) {
      series.stored = undefined;
      series.count = 0;
    }
    series.lastAt = now;
    series.count++;
    const remember = (stored: S): void => void (series.stored = stored);
    // Also where the first could not be stored: this one is as good.
    if (series.stored === undefined) return { kind: "create", note, remember };
    return { kind: "repeat", stored: series.stored, count: series.count, note, remember };
  }

  #isCrowded(event: ReportedEvent, now: number): boolean {
    const key = JSON.stringify([event.about, event.type, event.reason, event.action]);
    const group = touch(this.#groups, key, (): Group => ({ notes: new Set(), startedAt: now }));
    if (now - group.startedAt > similarWindowMs) {
      group.notes.clear();
      group.startedAt = now;
    }
    if (group.notes.has(event.note)) return false;
    if (group.notes.size >= similarLimit) return true;
    group.notes.add(event.note);
    return false;
  }
}

/** The value of `key`, made if need be and now the newest; beyond the capacity the oldest is forgotten. */
function touch<V>(map: Map<string, V>, key: string, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) value = make();
  else map.delete(key);
  map.set(key, value);
  if (map.size > capacity) {
    const oldest = map.keys().next();
    if (oldest.done === false) map.delete(oldest.value);
  }
  return value;
}
