import { systemClock } from "@keelson/api-machinery/time";
import type { RedisTls } from "../agent/redis/redis-tls.ts";
import { connectResp, type RespClient, RespError } from "../agent/redis/resp-client.ts";

/** Result of a {@link LiveWriter}. */
export interface WriterReport {
  readonly acknowledged: ReadonlySet<string>;
  /** Longest time between two acknowledged writes. */
  readonly maxGapMs: number;
}

/** A client that writes continuously and follows the primary. */
export interface LiveWriter {
  stop(): Promise<WriterReport>;
  readonly count: number;
}

/** Starts a {@link LiveWriter}. `addresses` returns the current addresses of the servers. */
export function startLiveWriter(
  addresses: () => readonly string[],
  password: string,
  port = 6379,
  tls: () => RedisTls | undefined = () => undefined,
): LiveWriter {
  const acknowledged = new Set<string>();
  let isStopped = false;
  let maxGapMs = 0;
  let last: number | undefined;
  let number = 0;
  const work = (async () => {
    while (!isStopped) {
      for (const host of addresses()) {
        let client: RespClient | undefined;
        try {
          client = await connectResp({ host, port, password, tls: tls(), timeoutMs: 1_000, clock: systemClock });
          while (!isStopped) {
            const key = `key-${number++}`;
            // An unacknowledged write may or may not be stored, so every attempt uses a new key.
            await client.command("SET", key, key);
            acknowledged.add(key);
            const now = performance.now();
            if (last !== undefined) maxGapMs = Math.max(maxGapMs, now - last);
            last = now;
            // About 1000 writes per second. Without pauses, the writer would take the processor from the programs that it tests.
            if (number % 3 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
          }
        } catch (error) {
          if (!(error instanceof RespError)) throw error;
        } finally {
          client?.close();
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  return {
    async stop() {
      isStopped = true;
      await work;
      return { acknowledged, maxGapMs };
    },
    get count() {
      return acknowledged.size;
    },
  };
}
