import { sleep } from "@keelson/api-machinery/time";
import type { EngineOptions } from "@keelson/middleware-agent";
import { PostgresError } from "../server/postgres-client.ts";
import type { PostgresServer } from "../server/postgres-server.ts";

const pollMs = 200;
const timeoutMs = 120_000;

/** Number of replicas that stream from a primary. */
export async function countReplicas({ connection }: PostgresServer): Promise<number> {
  const { count } = await connection.one(
    "SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming' AND application_name <> 'pg_basebackup'",
  );
  return Number(count ?? 0);
}

/**
 * Waits until as many replicas stream from a restored primary as before. They can only do so with its data, so none of them brings the old data
 * back if the primary fails afterwards. Ends without them after two minutes: a replica may have failed.
 */
export async function awaitReplicas(
  server: PostgresServer,
  count: number,
  { clock, log }: Pick<EngineOptions, "clock" | "log">,
): Promise<void> {
  const deadline = clock.monotonic() + timeoutMs;
  for (;;) {
    try {
      if ((await countReplicas(server)) >= count) return;
    } catch (error) {
      if (!(error instanceof PostgresError)) throw error;
    }
    if (!server.isRunning || clock.monotonic() > deadline) {
      log.warn({ count }, "not all replicas have the restored data yet");
      return;
    }
    await sleep(clock, pollMs);
  }
}
