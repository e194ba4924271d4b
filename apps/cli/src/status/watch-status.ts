import { setMaxListeners } from "node:events";
import type { ResourceType } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer } from "@keelson/controller/informer";

/** Options of {@link watchStatus}. */
export interface WatchStatusOptions {
  readonly client: Client;
  /** The kinds whose changes are shown. */
  readonly types: readonly ResourceType[];
  readonly clock: Clock;
  readonly log: Logger;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** Reads and shows the status. */
  readonly refresh: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** Changes arrive in bursts. */
const settleMs = 200;
/** A component that hangs causes no event. */
const refreshMs = 10_000;

/** Shows the status now and after every change, until the signal aborts. **Errors**: rejects as `refresh` does. */
export async function watchStatus({ client, types, clock, log, random, refresh, signal }: WatchStatusOptions): Promise<void> {
  let wake = (): void => {};
  // Every informer and its requests listen to the same signal.
  setMaxListeners(0, signal);
  const informers = types.map((type) => new Informer({ client, type, clock, random, log, onEffect: () => wake() }));
  const running = informers.map((informer) => informer.run(signal));
  while (!signal.aborted) {
    const changed = new Promise<void>((resolve) => {
      wake = resolve;
    });
    try {
      await refresh();
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    const timer = new AbortController();
    await Promise.race([changed, sleep(clock, refreshMs, AbortSignal.any([signal, timer.signal]))]).catch(() => {});
    timer.abort();
    await sleep(clock, settleMs, signal).catch(() => {});
  }
  await Promise.allSettled(running);
}
