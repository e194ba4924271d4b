import type { Clock } from "@keelson/api-machinery/time";

/** Options of {@link RequestLimits}. */
export interface RequestLimitOptions {
  readonly clock: Clock;
  /** Requests of one source that start within a second. Default 1000. */
  readonly perSecond?: number;
  /** Requests of one source at the same time. Default 100. */
  readonly perSource?: number;
  /** Requests of all sources at the same time. Default 1000. */
  readonly total?: number;
}

/** Bounds the requests of each source, and of all of them together. */
export class RequestLimits {
  readonly #clock: Clock;
  readonly #limits: { readonly perSecond: number; readonly perSource: number; readonly total: number };
  readonly #current = new Map<string, number>();
  readonly #recent = new Map<string, number>();
  #second = 0;
  #total = 0;

  constructor({ clock, perSecond = 1000, perSource = 100, total = 1000 }: RequestLimitOptions) {
    this.#clock = clock;
    this.#limits = { perSecond, perSource, total };
  }

  /** Counts a request, which must be followed by {@link end}. False if a limit is reached. */
  begin(source: string): boolean {
    const second = Math.floor(this.#clock.monotonic() / 1000);
    if (second !== this.#second) this.#recent.clear();
    this.#second = second;
    const [recent, current] = [this.#recent.get(source) ?? 0, this.#current.get(source) ?? 0];
    const { perSecond, perSource, total } = this.#limits;
    if (recent >= perSecond || current >= perSource || this.#total >= total) return false;
    this.#recent.set(source, recent + 1);
    this.#current.set(source, current + 1);
    this.#total++;
    return true;
  }

  /** Ends a request. */
  end(source: string): void {
    const left = (this.#current.get(source) ?? 1) - 1;
    if (left > 0) this.#current.set(source, left);
    else this.#current.delete(source);
    this.#total--;
  }
}
