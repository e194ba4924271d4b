type Work = () => Promise<void>;

/** Options of a {@link KeyedQueue}. */
export interface KeyedQueueOptions {
  /** Maximum number of keys whose work runs concurrently. */
  readonly maxConcurrent: number;
  /** Maximum number of pieces of work that wait or run. */
  readonly maxPending: number;
  /** Called when work rejects. */
  readonly onError: (key: string, error: unknown) => void;
}

/** Whom work counts against. */
export interface WorkOwner {
  readonly name: string;
  /** Maximum number of pieces of work of this owner that wait or run. */
  readonly maxPending: number;
}

/** Runs work in order within a key and concurrently across keys. Work beyond its bounds is rejected. */
export class KeyedQueue {
  readonly #options: KeyedQueueOptions;
  /** Waiting work by key. A key in this map is either ready or running. */
  readonly #lanes = new Map<string, Work[]>();
  readonly #ready: string[] = [];
  /** Number of pieces of work by owner. */
  readonly #owned = new Map<string, number>();
  #running = 0;
  #size = 0;
  #isClosed = false;
  #onIdle: (() => void) | undefined;

  constructor(options: KeyedQueueOptions) {
    this.#options = options;
  }

  /** Number of pieces of work that wait or run. */
  get size(): number {
    return this.#size;
  }

  /** Adds `work`. Returns false if the queue is full or closed, or `owner` has too much in it. */
  push(key: string, work: Work, owner?: WorkOwner): boolean {
    if (this.#isClosed || this.#size >= this.#options.maxPending) return false;
    if (owner !== undefined) {
      if ((this.#owned.get(owner.name) ?? 0) >= owner.maxPending) return false;
      return this.push(key, this.#owing(owner.name, work));
    }
    this.#size++;
    const lane = this.#lanes.get(key);
    if (lane !== undefined) {
      lane.push(work);
    } else {
      this.#lanes.set(key, [work]);
      this.#ready.push(key);
      this.#startReady();
    }
    return true;
  }

  /** Accepts no more work; resolves when all accepted work has ended. */
  close(): Promise<void> {
    this.#isClosed = true;
    if (this.#size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** Counts work for its owner until it has ended. */
  #owing(owner: string, work: Work): Work {
    this.#owned.set(owner, (this.#owned.get(owner) ?? 0) + 1);
    return async () => {
      try {
        await work();
      } finally {
        const left = (this.#owned.get(owner) ?? 1) - 1;
        if (left === 0) this.#owned.delete(owner);
        else this.#owned.set(owner, left);
      }
    };
  }

  #startReady(): void {
    while (this.#running < this.#options.maxConcurrent) {
      const key = this.#ready.shift();
      if (key === undefined) break;
      this.#running++;
      void this.#runNext(key).then(() => {
        this.#running--;
        this.#startReady();
        if (this.#size === 0) this.#onIdle?.();
      });
    }
  }

  async #runNext(key: string): Promise<void> {
    const lane = this.#lanes.get(key);
    const work = lane?.shift();
    if (lane === undefined || work === undefined) return;
    try {
      await work();
    } catch (error) {
      this.#options.onError(key, error);
    }
    this.#size--;
    // One piece of work per turn, so that a busy key does not starve the others.
    if (lane.length > 0) this.#ready.push(key);
    else this.#lanes.delete(key);
  }
}
