import { setTimeout as delay } from "node:timers/promises";
import { percentile } from "../figure.ts";

/** A service with watches, so that Keelson and its peer run the same benchmark. */
export interface WatchTarget {
  write(name: string): Promise<unknown>;
  /** Opens a watch that reports each name written from now on. Returns a function that closes it. */
  watch(onWritten: (name: string) => void): Promise<() => Promise<void>>;
}

/** The result of {@link measureFanOut} for one number of watchers. */
export interface FanOut {
  readonly watchers: number;
  /** Events per second delivered to all watchers together, while one writer writes without pauses. */
  readonly perSecond: number;
  /** Time from sending a write to receiving its event, 99th percentile in ms, while the writer pauses between writes. */
  readonly delayP99Ms: number;
}

/** Writes of the throughput part. */
const fastWrites = 300;
/** Writes of the latency part, and the pause after each. */
const pacedWrites = 200;
const pauseMs = 5;
/** If an event has not arrived by then, it is lost. */
const limitMs = 20_000;

/** Measures one writer with 1 and with 100 watchers. Throws if an event is lost. */
export async function measureFanOut(target: WatchTarget): Promise<readonly FanOut[]> {
  const results: FanOut[] = [];
  for (const watchers of [1, 100]) results.push(await fanOut(target, watchers));
  return results;
}

async function fanOut(target: WatchTarget, watchers: number): Promise<FanOut> {
  const sent = new Map<string, number>();
  let delays: number[] = [];
  let expected = 0;
  let onComplete: (() => void) | undefined;
  const onWritten = (name: string): void => {
    const at = sent.get(name);
    if (at === undefined) return;
    delays.push(performance.now() - at);
    if (delays.length === expected) onComplete?.();
  };
  const closes = await Promise.all(Array.from({ length: watchers }, () => target.watch(onWritten)));
  /** Returns the time until all watchers have received all writes, in ms. */
  const write = async (what: string, count: number, pause: number): Promise<number> => {
    delays = [];
    expected = count * watchers;
    const complete = new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${delays.length} of ${expected} events arrived`)), limitMs);
      onComplete = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    const started = performance.now();
    for (let index = 0; index < count; index++) {
      const name = `${what}-${watchers}-${index}`;
      sent.set(name, performance.now());
      await target.write(name);
      if (pause > 0) await delay(pause);
    }
    await complete;
    return performance.now() - started;
  };
  await write("warm", pacedWrites, 0);
  const fastMs = await write("fast", fastWrites, 0);
  await write("paced", pacedWrites, pauseMs);
  const delayP99Ms = percentile(delays, 0.99);
  await Promise.all(closes.map((close) => close()));
  return { watchers, perSecond: (fastWrites * watchers * 1000) / fastMs, delayP99Ms };
}
