import type { Clock } from "@keelson/api-machinery/time";
import type { Request } from "@keelson/controller";

/** The time of a test. */
export interface TestTime {
  /** Milliseconds since the epoch, as the wall clock showed them when the test was first seen, plus the time that has passed since. */
  readonly now: number;
  /** What the wall clock is ahead of `now`, in milliseconds. */
  readonly wallOffsetMs: number;
}

interface Anchor {
  readonly uid: string;
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * The times of tests. The time of a test passes steadily while the operator runs, so a wall clock that is set does not move its deadlines.
 * After a restart, it continues from the wall clock and the times in the test's status.
 */
export class TestClocks {
  readonly #clock: Clock;
  readonly #anchors = new Map<string, Anchor>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The time of a test, which starts to pass with the first call. */
  time(request: Request, uid: string): TestTime {
    const id = testId(request);
    const known = this.#anchors.get(id);
    const [wallMs, monotonicMs] = [this.#clock.now(), this.#clock.monotonic()];
    if (known?.uid !== uid) {
      this.#anchors.set(id, { uid, wallMs, monotonicMs });
      return { now: wallMs, wallOffsetMs: 0 };
    }
    const now = Math.floor(known.wallMs + monotonicMs - known.monotonicMs);
    return { now, wallOffsetMs: wallMs - now };
  }

  /** Forgets a test that no longer exists. */
  forget(request: Request): void {
    this.#anchors.delete(testId(request));
  }
}

const testId = ({ namespace, name }: Request): string => `${namespace ?? ""}/${name}`;
