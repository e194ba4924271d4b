import type { PostgresConnection } from "../server/postgres-client.ts";

/** What a standby has received of the log. */
export interface Received {
  readonly systemId: string;
  /** The newest timeline of which it has log. */
  readonly timeline: number;
  /** End of its log in bytes. */
  readonly position: number;
}

/** A replica of the same primary. */
export interface Peer extends Received {
  readonly host: string;
}

/** Columns of a {@link Received}. The last checkpoint may name an older timeline than that of the log. */
export const receivedText = `SELECT pg_is_in_recovery()::text AS standby,
    (SELECT system_identifier::text FROM pg_control_system()) AS system_id,
    (SELECT max(substr(name, 1, 8)) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$') AS timeline,
    (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), '0/0') - '0/0')::text AS position`;

/** Parses the row of {@link receivedText}; undefined if the server is not a standby. */
export function parseReceived(row: Readonly<Record<string, string | null>> = {}): Received | undefined {
  if (row["standby"] !== "true") return undefined;
  return {
    systemId: row["system_id"] ?? "",
    timeline: Number.parseInt(row["timeline"] ?? "0", 16),
    position: Number(row["position"]),
  };
}

/** Reads what a replica has received; undefined if it is not a standby. */
export async function receivedBy(connection: PostgresConnection): Promise<Received | undefined> {
  return parseReceived((await connection.run(receivedText))[0]);
}

/**
 * The peer that has the most log of those that have more than `own`. Peers with another history do not count: log of another timeline
 * does not continue this one. Pure.
 */
export function newerReplica(own: Received, peers: readonly Peer[]): Peer | undefined {
  return peers
    .filter(({ systemId, timeline, position }) => {
      return systemId === own.systemId && timeline === own.timeline && position > own.position;
    })
    .reduce<Peer | undefined>((best, peer) => (best === undefined || peer.position > best.position ? peer : best), undefined);
}
