import type { LocalConnection, PostgresConnection } from "../server/postgres-client.ts";
import { logTimeline } from "../server/server-state.ts";
import { type History, historyName, parseSwitches, type PrimaryHistory, segmentPosition } from "./timeline.ts";

const systemId = "(SELECT system_identifier::text FROM pg_control_system())";

const historyText = "SELECT coalesce(pg_read_file($1, 0, 1000000, true), '') AS text";
const historyFile = (timeline: number): string => `pg_wal/${historyName(timeline)}`;

/** The history of a primary; undefined if the server is a standby. Makes it record its timeline for `pg_rewind`. */
export async function primaryHistory(connection: PostgresConnection): Promise<PrimaryHistory | undefined> {
  const [state] = await connection.run("SELECT pg_is_in_recovery()::text AS standby");
  if (state?.["standby"] !== "false") return undefined;
  const [row = {}] = await connection.run(
    `SELECT ${systemId} AS system_id, (pg_current_wal_lsn() - '0/0')::text AS position,
       substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline,
       (SELECT min(substr(name, 9)) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$') AS oldest`,
  );
  const timeline = row["timeline"] ?? "";
  const [file = {}] = await connection.run(historyText, [historyFile(Number.parseInt(timeline, 16))]);
  return {
    systemId: row["system_id"] ?? "",
    timeline: Number.parseInt(timeline, 16),
    position: Number(row["position"]),
    switches: parseSwitches(file["text"] ?? ""),
    oldest: segmentPosition(`00000000${row["oldest"] ?? "0000000000000000"}`),
  };
}

/** The history of the own server, a standby. */
export async function standbyHistory(connection: LocalConnection): Promise<History> {
  const row = await connection.one(
    `SELECT ${systemId} AS system_id,
       (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), '0/0') - '0/0')::text AS position,
       greatest((SELECT timeline_id FROM pg_control_checkpoint()),
         (SELECT min_recovery_end_timeline FROM pg_control_recovery()),
         (SELECT received_tli FROM pg_stat_wal_receiver), ${logTimeline})::text AS timeline`,
  );
  const timeline = Number(row["timeline"]);
  const file = await connection.one(historyText, [historyFile(timeline)]);
  return {
    systemId: row["system_id"] ?? "",
    timeline,
    position: Number(row["position"]),
    switches: parseSwitches(file["text"] ?? ""),
  };
}
