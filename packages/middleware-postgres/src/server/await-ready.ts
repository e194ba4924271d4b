import { type Clock, sleep } from "@keelson/api-machinery/time";
import { AgentError, type ServerProcess } from "@keelson/middleware-agent";
import { type LocalConnection, PostgresError } from "./postgres-client.ts";

const [startTimeoutMs, pollMs] = [60_000, 20];
/** Error code of a server that starts or recovers. */
const startingUp = "57P03";

/** Waits until a server accepts its agent. Rejects with its output if it ends before, or if the signal fires. */
export async function awaitReady(
  child: ServerProcess,
  options: {
    readonly clock: Clock;
    readonly connection: LocalConnection;
    /** Deadline of a Pod that ends: it waits only for a short start, such as that of a switchover. */
    readonly endsBy: () => number;
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  const { clock, connection, endsBy, signal } = options;
  for (let deadline = clock.monotonic() + startTimeoutMs; ; await sleep(clock, pollMs)) {
    if (child.failure !== undefined) throw new AgentError("ProgramExited", child.failure);
    try {
      await connection.one("SELECT 1");
      return;
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof PostgresError)) throw error;
      // It recovers, which takes as long as its log needs.
      if (error.sqlState === startingUp) deadline = clock.monotonic() + startTimeoutMs;
      if (clock.monotonic() > Math.min(deadline, endsBy())) throw error;
    }
  }
}
