/** Commands of one container that may be starting at the same time. */
const maxStarting = 4;

interface Starts {
  starting: number;
  readonly waiting: (() => void)[];
}

/**
 * Limits how many commands of a container start at the same time. A start takes several processes, so a client that opens hundreds of
 * sessions would otherwise keep the node from serving anyone else.
 */
export class CommandStarts {
  readonly #containers = new Map<string, Starts>();

  /** Calls `start` when it is the container's turn. Returns undefined, without a call, if the client has disconnected by then. */
  async run<T>(container: string, closed: Promise<void>, start: () => Promise<T>): Promise<T | undefined> {
    let isClosed = false;
    void closed.then(() => (isClosed = true));
    const starts = this.#containers.get(container) ?? { starting: 0, waiting: [] };
    this.#containers.set(container, starts);
    if (starts.starting >= maxStarting) await new Promise<void>((resolve) => starts.waiting.push(resolve));
    else starts.starting++;
    try {
      // The connection of a client that gave up earlier is reported as closed once its input was read.
      await new Promise<void>((resolve) => void setImmediate(resolve));
      return isClosed ? undefined : await start();
    } finally {
      this.#finish(container, starts);
    }
  }

  /** Passes the turn on. */
  #finish(container: string, starts: Starts): void {
    const next = starts.waiting.shift();
    if (next !== undefined) next();
    else if (--starts.starting === 0) this.#containers.delete(container);
  }
}
