import { sleep } from "@keelson/api-machinery/time";
import type { EngineOptions, FailoverOrder, Outcome } from "@keelson/middleware-agent";
import type { AssignmentRecord } from "./assignment-record.ts";
import { connectToPeer, type PeerAccess } from "../server/peer-connection.ts";
import { PostgresConnection, PostgresError } from "../server/postgres-client.ts";
import type { PostgresServer } from "../server/postgres-server.ts";
import { dataEndOf } from "./shutdown-checkpoint.ts";

/** Maximum lag of the target at the start of a switchover. */
const maxLagBytes = 16 * 1_048_576;
const pollMs = 10;
/** How long the target may take to report the checkpoint of the shutdown. It may never receive it. */
const checkpointWaitMs = 500;

/** Result of a switchover. `fenced`: this server accepts no writes, and was not replaced. */
export type SwitchoverResult =
  | { readonly kind: "done" }
  | { readonly kind: "refused"; readonly error: string }
  | { readonly kind: "fenced"; readonly error: string; readonly mayResume: boolean };

/** The primary that hands over. */
export type HandingOver = Pick<EngineOptions, "host" | "clock" | "log"> &
  PeerAccess & {
    readonly server: PostgresServer;
  };

/**
 * Shuts this primary down, which sends its log to its replicas, promotes the target when it has all data, and starts this server
 * as a standby. Rejects if it is not known whether the target was promoted.
 */
export async function switchOver(order: FailoverOrder, from: HandingOver): Promise<SwitchoverResult> {
  const { server } = from;
  const { target, timeoutMs } = order;
  let peer: PostgresConnection;
  try {
    ({ connection: peer } = await connectToPeer(target, from));
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    return { kind: "refused", error: `the target does not respond: ${error.message}` };
  }
  try {
    try {
      const obstacle = await obstacleOf(peer, from);
      if (obstacle !== undefined) return { kind: "refused", error: obstacle };
      // Shortens the checkpoint of the shutdown, during which no server accepts writes.
      await server.connection.long("CHECKPOINT", timeoutMs);
    } catch (error) {
      if (!(error instanceof PostgresError)) throw error;
      // Nothing was stopped: this server is still the primary.
      return { kind: "refused", error: `could not prepare the switchover: ${error.message}` };
    }
    const isClean = await server.stop(timeoutMs);
    const dataEnd = isClean ? dataEndOf(await server.files.controlData()) : undefined;
    const end = await startFenced(server);
    const outcome = await promote(peer, { end, dataEnd, isClean }, order, from);
    if (outcome.ok) return { kind: "done" };
    // Another agent may have promoted the target in the meantime.
    const mayResume = (await isStandby(peer)) && (order.mayResume?.() ?? true);
    return { kind: "fenced", error: outcome.error, mayResume };
  } finally {
    await peer.close();
  }
}

/** The outcome of a switchover that needs none, or cannot begin. `record`: the role of this server, if it has one. */
export function outcomeWithout({ target, epoch }: FailoverOrder, record: AssignmentRecord | undefined): Outcome | undefined {
  if (record === undefined) return { ok: false, error: "this server was restarted and has no role" };
  if (record.role === "replica") {
    const isDone = record.primaryHost === target;
    return isDone ? { ok: true } : { ok: false, error: `this server is a replica of ${record.primaryHost}` };
  }
  return epoch > record.epoch ? undefined : { ok: false, error: `epoch ${epoch} must be newer than ${record.epoch}` };
}

/** Why the target cannot become the primary. */
async function obstacleOf(peer: PostgresConnection, { server, host }: HandingOver): Promise<string | undefined> {
  const { position } = await server.connection.one("SELECT pg_current_wal_lsn()::text AS position");
  const [row] = await peer.run(
    "SELECT status, sender_host, ($1::pg_lsn - flushed_lsn)::text AS lag FROM pg_stat_wal_receiver",
    [position ?? "0/0"],
  );
  if (row === undefined || row["sender_host"] !== host) return "the target does not follow this server";
  if (row["status"] !== "streaming") return `the target is not in sync: ${row["status"]}`;
  const lag = Number(row["lag"]);
  return lag > maxLagBytes ? `the target lags ${lag} bytes behind` : undefined;
}

/** Restarts the server as an isolated standby. Resolves to the end of its log. */
async function startFenced(server: PostgresServer): Promise<string> {
  await server.start({ isStandby: true, isOpen: false });
  const { position } = await server.connection.one("SELECT pg_last_wal_replay_lsn()::text AS position");
  return position ?? "0/0";
}

/** Whether a server is known to be a standby. */
async function isStandby(peer: PostgresConnection): Promise<boolean> {
  try {
    return (await peer.run("SELECT pg_is_in_recovery()::text AS standby"))[0]?.["standby"] === "true";
  } catch (error) {
    if (error instanceof PostgresError) return false;
    throw error;
  }
}

interface ShutDownLog {
  /** End of the log. */
  readonly end: string;
  /** End of all log but the checkpoint of the shutdown, if the server was shut down cleanly. */
  readonly dataEnd: string | undefined;
  /** The shutdown has sent all log up to `dataEnd`. Otherwise the target never receives the rest. */
  readonly isClean: boolean;
}

async function promote(
  peer: PostgresConnection,
  { end, dataEnd, isClean }: ShutDownLog,
  { target, timeoutMs, beforePromotion }: FailoverOrder,
  { clock, log }: HandingOver,
): Promise<Outcome> {
  const deadline = clock.monotonic() + timeoutMs;
  // A server that has applied the switch to the next segment lacks nothing, even if it has not received the padding before.
  const received = "SELECT (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) >= $1::pg_lsn)::text AS caught_up";
  const has = async (position: string): Promise<boolean> => (await peer.run(received, [position]))[0]?.["caught_up"] === "true";
  const checkpointDeadline = clock.monotonic() + checkpointWaitMs;
  while (!(await has(end))) {
    // Without the checkpoint, this server is rewound before it follows the target.
    if (dataEnd !== undefined && clock.monotonic() > checkpointDeadline && (await has(dataEnd))) break;
    if (!isClean) return { ok: false, error: `the server did not shut down within ${timeoutMs} ms, and the target lacks data` };
    if (clock.monotonic() > deadline) return { ok: false, error: `the target did not catch up within ${timeoutMs} ms` };
    await sleep(clock, pollMs);
  }
  const permission = await beforePromotion?.();
  if (permission?.ok === false) return permission;
  try {
    if (permission?.promotesItself !== true) await peer.run("SELECT pg_promote(true, 20)", [], 25_000);
    const recovering = "SELECT pg_is_in_recovery()::text AS standby";
    while ((await peer.run(recovering))[0]?.["standby"] === "true") {
      if (clock.monotonic() > deadline)
        throw new PostgresError("Unreachable", `${target} was not promoted within ${timeoutMs} ms`);
      await sleep(clock, pollMs);
    }
    return { ok: true };
  } catch (error) {
    log.warn({ err: error, target }, "switchover interrupted; this server accepts no writes until its role is assigned");
    throw error;
  }
}

/**
 * Ensures that the failed primary of a replica accepts no writes. A PostgreSQL server cannot be fenced from another machine: it must have
 * ended, or be isolated by its agent. The record of a primary names none to fence.
 */
export async function fencePrimaryOf({ role, primaryHost: host }: AssignmentRecord, access: PeerAccess): Promise<Outcome> {
  if (role === "primary") return { ok: true };
  try {
    const { connection: opened } = await connectToPeer(host, access, 1_500);
    await using connection = opened;
    const [row] = await connection.run("SELECT pg_is_in_recovery()::text AS standby");
    if (row?.["standby"] === "true") return { ok: true };
    return { ok: false, error: `the primary ${host} still accepts writes`, mustTerminate: true };
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    const cause = error.cause as { readonly code?: string } | undefined;
    if (cause?.code === "ECONNREFUSED" || (await isClosed(error, host, access))) return { ok: true };
    return { ok: false, error: `the primary ${host} does not respond: ${error.message}`, mustTerminate: true };
  }
}

/**
 * Whether a server accepts only its agent, after it rejected a connection. One that requires TLS also rejects connections without it, but
 * not those with it.
 */
async function isClosed(error: PostgresError, host: string, { port, tls }: PeerAccess): Promise<boolean> {
  if (!error.isRejectedByRules) return false;
  // It was tried with TLS, unless the server has none.
  if (tls !== undefined) return true;
  try {
    const connection = await PostgresConnection.open({
      ...{ host, port, password: "", timeoutMs: 1_500 },
      tls: { mode: "require", certificates: undefined },
    });
    await connection.close();
    return false;
  } catch (secured) {
    return secured instanceof PostgresError && (secured.isRejectedByRules || secured.isWithoutTls);
  }
}
