import type { LocalConnection } from "./postgres-client.ts";
import type { PostgresServer } from "./postgres-server.ts";
import type { Replacement } from "../data/replacement.ts";

/** Maximum lag of a replica that counts as in sync. */
const maxLagBytes = 16 * 1_048_576;

/** A server that does not respond for this long counts as failed. */
const stateTimeoutMs = 3_000;

/**
 * Expression for the newest timeline of which a server has log. Its last checkpoint may name an older one. Null without log, or if that was
 * removed.
 */
export const logTimeline =
  "(SELECT max(('x' || substr(name, 1, 8))::bit(32)::int) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$')";

/** The state of a running server. */
export interface ServerState {
  readonly pid: string;
  /** The processes that write its log and its data. */
  readonly writers: readonly number[];
  readonly isStandby: boolean;
  /** End of the log that is on disk, in bytes. */
  readonly position: number;
  /** The newest timeline of which it has log. */
  readonly timeline: string;
  /** Address of the server that a standby receives log from at the moment. */
  readonly streamsFrom: string | undefined;
  /** Whether a standby has received nearly all that its primary has sent. */
  readonly isCaughtUp: boolean;
  /** Log that a standby has received and not applied. */
  readonly replayLagBytes: number;
  /** Replicas that commits of a primary wait for. */
  readonly synchronousReplicas: number;
}

/** Reads the state of the own server. Rejects with a `PostgresError`. */
export async function readState(connection: LocalConnection): Promise<ServerState> {
  const row = await connection.one(
    `SELECT pg_is_in_recovery()::text AS standby, split_part(pg_read_file('postmaster.pid'), E'\\n', 1) AS pid,
       (SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
         WHERE backend_type IN ('checkpointer', 'walwriter', 'background writer', 'startup', 'walreceiver')) AS writers,
       greatest((SELECT timeline_id FROM pg_control_checkpoint()), ${logTimeline})::text AS timeline,
       (CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), '0/0')
         ELSE pg_current_wal_flush_lsn() END - '0/0')::text AS position,
       coalesce(pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn(), 0)::text AS replay_lag,
       (SELECT sender_host FROM pg_stat_wal_receiver WHERE status = 'streaming') AS sender,
       (SELECT latest_end_lsn - flushed_lsn FROM pg_stat_wal_receiver)::text AS lag,
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))::text AS synchronous`,
    [],
    stateTimeoutMs,
  );
  return {
    pid: row["pid"] ?? "",
    writers: (row["writers"] ?? "").split(" ").filter(Boolean).map(Number),
    isStandby: row["standby"] === "true",
    position: Number(row["position"]),
    timeline: row["timeline"] ?? "",
    streamsFrom: row["sender"] ?? undefined,
    isCaughtUp: Number(row["lag"] ?? 0) <= maxLagBytes,
    replayLagBytes: Math.max(Number(row["replay_lag"]), 0),
    synchronousReplicas: Number(row["synchronous"]),
  };
}

/**
 * Reads the state of a server; undefined if it does not run. A load stops and starts it, so a server whose data is being replaced is not
 * queried: its silence is not a failure. Once that takes too long, the server is queried; undefined if it does not respond, because it may
 * recover its data. Rejects with a `PostgresError`.
 */
export async function observeState(
  server: Pick<PostgresServer, "isRunning" | "connection" | "verify">,
  replacement: Pick<Replacement, "isUnderWay" | "isOnTime">,
): Promise<ServerState | undefined> {
  if (replacement.isOnTime || !server.isRunning) return undefined;
  try {
    // Before the query, which a stopped server may not answer.
    await server.verify();
    const state = await readState(server.connection);
    await server.verify(state.writers);
    return state;
  } catch (error) {
    // The load began meanwhile and closed the connection, or it takes too long.
    if (replacement.isUnderWay) return undefined;
    throw error;
  }
}

/** Whether a server is a standby that streams from a primary and has caught up. */
export function isStreamingFrom(state: ServerState | undefined, primaryHost: string): boolean {
  return state?.isStandby === true && state.streamsFrom === primaryHost && state.isCaughtUp;
}
