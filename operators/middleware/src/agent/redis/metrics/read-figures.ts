import type { Clock } from "@keelson/api-machinery/time";
import type { RedisConnection } from "../redis-connection.ts";
import { configParameters, type RedisFigures } from "./redis-metrics.ts";

/** Reads the figures of a server. Rejects with a `RespError` if it does not respond. */
export async function readFigures(connection: RedisConnection, clock: Clock): Promise<RedisFigures> {
  const info = await connection.info("all");
  const config = Object.fromEntries(
    await Promise.all(
      configParameters.map(async (name) => {
        const [, value = ""] = (await connection.run("CONFIG", "GET", name)) as readonly string[];
        return [name, value] as const;
      }),
    ),
  );
  const slowlogLength = Number(await connection.run("SLOWLOG", "LEN"));
  const entries = await connection.run("SLOWLOG", "GET", "1");
  const newest: unknown = Array.isArray(entries) ? entries[0] : undefined;
  const [id, , microseconds] = Array.isArray(newest) ? newest : [];
  const lastSlow = { id: Number(id ?? 0), microseconds: Number(microseconds ?? 0) };
  return { info, config, slowlogLength, lastSlow, nowMs: clock.now() };
}
