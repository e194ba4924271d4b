import { connectionString, type Upstream } from "../server/postgres-config.ts";

/**
 * Arguments of `pg_basebackup`. Without a slot it does not report what it has flushed: otherwise the primary would count it as a
 * synchronous replica, and acknowledge commits that only the unfinished copy has.
 */
export function backupArguments(upstream: Upstream, target: string): readonly string[] {
  const source = connectionString(upstream);
  return [`--pgdata=${target}`, "--wal-method=stream", "--no-slot", "--checkpoint=fast", `--dbname=${source}`];
}

/** Arguments of `pg_rewind`. */
export function rewindArguments(upstream: Upstream, target: string, configFile: string): readonly string[] {
  const source = connectionString(upstream);
  return [`--target-pgdata=${target}`, `--source-server=${source} dbname='postgres'`, `--config-file=${configFile}`];
}
