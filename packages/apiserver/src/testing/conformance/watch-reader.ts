import type { IncomingMessage } from "node:http";
import { createInterface } from "node:readline";
import { isJsonObject } from "@keelson/api-machinery";
import type { TakeEvents } from "./corpus.ts";
import { isIgnoredObject } from "./normalise.ts";

/** Reads the events of an open watch. */
export interface WatchReader {
  take(options: TakeEvents): Promise<unknown[]>;
  close(): void;
}

/**
 * Reads a watch in the background, one JSON document per line. Expected events are awaited for `patienceMs` even if the recording says
 * less.
 */
export function readWatch(response: IncomingMessage, patienceMs: number): WatchReader {
  const events: unknown[] = [];
  let isClosed = false;
  let wake = (): void => undefined;
  const lines = createInterface({ input: response, crlfDelay: Infinity });
  lines.on("line", (line) => {
    if (line.trim() === "") return;
    events.push(JSON.parse(line));
    wake();
  });
  const end = (): void => {
    isClosed = true;
    wake();
  };
  lines.on("close", end);
  response.on("error", end);

  /** The next event; undefined if the stream has ended or `deadline` has passed. */
  async function next(deadline: number): Promise<unknown> {
    while (events.length === 0 && !isClosed) {
      const left = deadline - performance.now();
      if (left <= 0) return undefined;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return events.shift();
  }

  return {
    async take({ count = 0, timeoutMs = 5_000, quietMs = 0, skipBookmarks = false, untilClosed = false }) {
      const matching: unknown[] = [];
      const read = async (deadline: number, isEnough: () => boolean): Promise<void> => {
        while (!isEnough()) {
          const event = await next(deadline);
          if (event === undefined) return;
          if (!isJsonObject(event) || isIgnoredObject(event["object"])) continue;
          if (!(skipBookmarks && event["type"] === "BOOKMARK")) matching.push(event);
        }
      };
      await read(
        performance.now() + (count > 0 ? Math.max(timeoutMs, patienceMs) : timeoutMs),
        () => !untilClosed && matching.length >= count,
      );
      if (quietMs > 0) await read(performance.now() + quietMs, () => false);
      return matching;
    },
    close: () => response.destroy(),
  };
}
