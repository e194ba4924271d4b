import type { PostgresConnection } from "../server/postgres-client.ts";
import { segmentPosition } from "./timeline.ts";

/** What a standby has received of the log. */
export interface Received {
  readonly systemId: string;
  /** The newest timeline of which it has log. */
  readonly timeline: number;
  /** End of its log in bytes. */
  readonly position: number;
  /** Position of the oldest log segment that it has kept. */
  readonly oldest: number;
}

/** A replica of the same primary. */
export interface Peer extends Received {
  readonly host: string;
}

/** Columns of a {@link Received}. The last checkpoint may name an older timeline than that of the log. */
export const receivedText = `SELECT pg_is_in_recovery()::text AS standby,
    (SELECT system_identifier::text FROM pg_control_system()) AS system_id,
    (SELECT max(substr(name, 1, 8)) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$') AS timeline,
    (SELECT min(substr(name, 9)) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$') AS oldest,
    (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), '0/0') - '0/0')::text AS position`;

/** Parses the row of {@link receivedText}; undefined if the server is not a standby. */
export function parseReceived(row: Readonly<Record<string, string | null>> = {}): Received | undefined {
  if (row["standby"] !== "true") return undefined;
  return {
    systemId: row["system_id"] ?? "",
    timeline: Number.parseInt(row["timeline"] ?? "0", 16),
    position: Number(row["position"]),
    oldest: segmentPosition(`00000000${row["oldest"] ?? "0000000000000000"}`),
  };
}

/** Reads what a replica has received; undefined if it is not a standby. */
export async function receivedBy(connection: PostgresConnection): Promise<Received | undefined> {
  return parseReceived((await connection.run(receivedText))[0]);
}

/**
 * What a replica lacks: nothing, the log that `peer` has, or `unreachable` data that it cannot receive from it. A peer with a later timeline
 * has followed another primary: log of this timeline does not continue that one, and commits on it were acknowledged. Of several peers it is
 * the one with the most log. Peers with an earlier timeline or of another cluster do not count. Pure.
 */
export function lackOf<P extends Peer>(
  own: Received,
  peers: readonly P[],
): { readonly kind: "nothing" } | { readonly kind: "log" | "unreachable"; readonly peer: P } {
  const [best] = peers
    .filter(({ systemId, timeline, position }) => {
      const isNewer = timeline > own.timeline || (timeline === own.timeline && position > own.position);
      return systemId === own.systemId && isNewer;
    })
    .toSorted((a, b) => b.timeline - a.timeline || b.position - a.position);
  if (best === undefined) return { kind: "nothing" };
  const isReachable = best.timeline === own.timeline && best.oldest <= own.position;
  return { kind: isReachable ? "log" : "unreachable", peer: best };
}
