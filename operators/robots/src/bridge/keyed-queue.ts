/** Runs work in order within a key and side by side across keys, and refuses work beyond its bounds. */
export interface KeyedQueue {
  /** Takes `work`, or answers false where the queue is full. Errors of work go to `onError`. */
  push(key: string, work: () => Promise<void>): boolean;
  /** Work that waits or runs. */
  readonly size: number;
  /** Takes nothing more; settles when what was taken is done. */
  close(): Promise<void>;
}

/** Makes a {@link KeyedQueue}: `atOnce` keys run side by side, `maxPending` pieces of work are kept in all. */
export function createKeyedQueue(options: {
  readonly atOnce: number;
  readonly maxPending: number;
  readonly onError: (key: string, error: unknown) => void;
}): KeyedQueue {
  const { atOnce, maxPending, onError } = options;
  /** Work by key. A key that is here is either ready or running. */
  const lanes = new Map<string, (() => Promise<void>)[]>();
  const ready: string[] = [];
  let running = 0;
  let size = 0;
  let isClosed = false;
  let onIdle: (() => void) | undefined;

  const runLane = async (key: string): Promise<void> => {
    const lane = lanes.get(key);
    const work = lane?.shift();
    if (lane === undefined || work === undefined) return;
    try {
      await work();
    } catch (error) {
      onError(key, error);
    }
    size--;
    // One piece a turn, so that a busy key does not keep others waiting.
    if (lane.length > 0) ready.push(key);
    else lanes.delete(key);
  };
  const startMore = (): void => {
    while (running < atOnce) {
      const key = ready.shift();
      if (key === undefined) break;
      running++;
      void runLane(key).then(() => {
        running--;
        startMore();
        if (size === 0) onIdle?.();
      });
    }
  };
  return {
    push(key, work) {
      if (isClosed || size >= maxPending) return false;
      size++;
      const lane = lanes.get(key);
      if (lane) lane.push(work);
      else {
        lanes.set(key, [work]);
        ready.push(key);
        startMore();
      }
      return true;
    },
    get size() {
      return size;
    },
    close() {
      isClosed = true;
      return size === 0 ? Promise.resolve() : new Promise((resolve) => (onIdle = resolve));
    },
  };
}
