import { AgentError } from "@keelson/middleware-agent";
import type { PostgresServer } from "../server/postgres-server.ts";

/** Time for a promotion, and for the shutdown of a server. */
const promoteTimeoutMs = 25_000;

/** Settings that a standby could not lower take effect. */
export async function restartAsPrimary(server: PostgresServer, isOpen: boolean): Promise<void> {
  if (server.isRaised) await server.stop(promoteTimeoutMs).then(() => server.start({ isStandby: false, isOpen }));
}

/** Makes a standby a primary that accepts only its agent. */
export async function endRecovery(server: PostgresServer): Promise<void> {
  const { done } = await server.connection.long("SELECT pg_promote(true, 20)::text AS done", promoteTimeoutMs);
  if (done !== "true") throw new AgentError("ProgramExited", "the server was not promoted within 20 s");
  await restartAsPrimary(server, false);
}
