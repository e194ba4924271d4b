import { setTimeout as delay } from "node:timers/promises";
import { percentile } from "../figure.ts";

/** A service whose changes can be watched, so that Keelson and its peer do the same. */
export interface WatchTarget {
  write(name: string): Promise<unknown>;
  /** Opens a watch that tells of each name written from now on. Answers what closes it. */
  watch(onWritten: (name: string) => void): Promise<() => Promise<void>>;
}

/** What {@link measureFanOut} found for one number of watchers. */
export interface FanOut {
  readonly watchers: number;
  /** Events that all watchers together were given, a second, while one writer wrote as fast as it was answered. */
  readonly perSecond: number;
  /** From sending a write to its event at a watcher, ms: the slowest of 100, while the writer paused between its writes. */
  readonly delayP99Ms: number;
}

/** Writes of the part that goes as fast as it can. */
const hurriedWrites = 300;
/** Writes of the part that measures delays, and the pause after each. */
const pacedWrites = 200;
const pauseMs = 5;
/** By then every event has come, or one is lost. */
const limitMs = 20_000;

/** One writer, 1 and then 100 watchers. Throws when an event does not come. */
export async function measureFanOut(target: WatchTarget): Promise<readonly FanOut[]> {
  const results: FanOut[] = [];
  for (const watchers of [1, 100]) results.push(await fanOut(target, watchers));
  return results;
}

async function fanOut(target: WatchTarget, watchers: number): Promise<FanOut> {
  const sent = new Map<string, number>();
  let delays: number[] = [];
  let awaited = 0;
  let allCame: (() => void) | undefined;
  const onWritten = (name: string): void => {
    const at = sent.get(name);
    if (at === undefined) return;
    delays.push(performance.now() - at);
    if (delays.length === awaited) allCame?.();
  };
  const closes = await Promise.all(Array.from({ length: watchers }, () => target.watch(onWritten)));
  /** Answers how long it took until all watchers were told of all writes, ms. */
  const write = async (what: string, count: number, pause: number): Promise<number> => {
    delays = [];
    awaited = count * watchers;
    const complete = new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${delays.length} of ${awaited} events came`)), limitMs);
      allCame = () => {
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
  const hurriedMs = await write("hurried", hurriedWrites, 0);
  await write("paced", pacedWrites, pauseMs);
  const delayP99Ms = percentile(delays, 0.99);
  await Promise.all(closes.map((close) => close()));
  return { watchers, perSecond: (hurriedWrites * watchers * 1000) / hurriedMs, delayP99Ms };
}
