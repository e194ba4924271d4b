import { sleep } from "@keelson/api-machinery/time";
import type { EngineOptions, FailoverOrder, Outcome } from "@keelson/middleware-agent";
import { connectToPeer, type Login, type PeerAccess } from "../server/peer-connection.ts";
import { normalizeParameters } from "../server/postgres-config.ts";
import { PostgresError } from "../server/postgres-client.ts";
import type { PostgresServer } from "../server/postgres-server.ts";
import type { Sequence } from "../sequence.ts";
import type { AssignmentRecord } from "./assignment-record.ts";
import { neededReplicas, type SynchronousNames } from "./synchronous-quorum.ts";
import { lackOf, parseReceived, type Peer, type Received, receivedBy, receivedText } from "./newer-replica.ts";
import { fencePrimaryOf } from "./switchover.ts";

const pollMs = 20;
const [maxCatchUpMs, electionTimeoutMs] = [10_000, 5_000];

/** The replicas of a primary that has failed. */
export interface Replicas {
  /** Addresses of the other ones. */
  readonly others: readonly string[];
  /** How many the primary had, this one and those that do not respond included. Undefined: the available data is enough. */
  readonly replicas?: number | undefined;
}

/** The replica that takes over. */
export type TakingOver = Pick<EngineOptions, "clock" | "log"> &
  PeerAccess & {
    readonly server: PostgresServer;
    readonly synchronous: SynchronousNames;
    /** Actions that change the server. */
    readonly actions: Sequence;
  };

/** Ensures that the failed primary accepts no writes, and that this replica has all log of the replicas that answer. */
export async function prepareTakeover(
  { isPrimaryDown, others, replicas, timeoutMs }: FailoverOrder,
  record: AssignmentRecord,
  own: TakingOver,
): Promise<Outcome> {
  const fenced = isPrimaryDown === true ? undefined : await fencePrimaryOf(record, own);
  if (fenced?.ok === false) return fenced;
  if (!own.server.isRunning) return { ok: false, error: "this server has no data yet" };
  return own.actions.run(() => catchUp({ others, replicas }, timeoutMs, own));
}

/**
 * Ensures that a replica that the agents have elected has all acknowledged commits. `members`: addresses of the other Pods. Rejects with a
 * `PostgresError`.
 */
export async function prepareElection(
  members: readonly string[],
  record: AssignmentRecord | undefined,
  own: TakingOver,
): Promise<void> {
  if (record?.role !== "replica") return;
  const others = members.filter((host) => host !== record.primaryHost);
  const outcome = await own.actions.run(() => catchUp({ others, replicas: others.length + 1 }, electionTimeoutMs, own));
  if (!outcome.ok) throw new PostgresError("Refused", outcome.error);
}

/**
 * Receives the log that another replica has and this one lacks. The primary must not run: it was chosen by the amount of data that
 * replicas had before it was fenced, and commits that another replica has confirmed since were acknowledged. Fails
 * while an acknowledged commit may be on replicas that do not respond. Fails if the log does not arrive in time, and immediately if it cannot.
 */
async function catchUp({ others, replicas }: Replicas, timeoutMs: number, own: TakingOver): Promise<Outcome> {
  const { server, clock, log } = own;
  if (others.length === 0 && (replicas ?? 1) <= 1) return { ok: true };
  const received = parseReceived(await server.connection.one(receivedText));
  // It was promoted before.
  if (received === undefined) return { ok: true };
  const found = (await Promise.all(others.map((host) => peerAt(host, own)))).flatMap((peer) => peer ?? []);
  const missing = missingReplicas(own, found.filter(({ systemId }) => systemId === received.systemId).length + 1, replicas);
  if (missing !== undefined) return { ok: false, error: missing };
  const lack = lackOf(received, found);
  if (lack.kind === "nothing") return { ok: true };
  const newer = lack.peer;
  if (lack.kind === "unreachable") return { ok: false, error: refusalOf(received, newer) };
  log.info({ from: newer.host, bytes: newer.position - received.position }, "receiving log that another replica has");
  await server.change({ isStandby: true, upstream: server.upstreamOf(newer.host, newer.login), isOpen: true });
  const deadline = clock.monotonic() + Math.min(timeoutMs, maxCatchUpMs);
  while ((parseReceived(await server.connection.one(receivedText))?.position ?? 0) < newer.position) {
    if (clock.monotonic() > deadline) return { ok: false, error: `the log that ${newer.host} has did not arrive in time` };
    await sleep(clock, pollMs);
  }
  return { ok: true };
}

/** Why acknowledged commits may be on replicas that do not respond. */
function missingReplicas({ server, synchronous }: TakingOver, known: number, replicas: number | undefined): string | undefined {
  if (replicas === undefined) return undefined;
  const own = normalizeParameters(server.parameters)["synchronous_standby_names"] ?? "";
  const names = synchronous.strictest(own, replicas);
  const needed = neededReplicas(names, replicas);
  if (known >= needed) return undefined;
  return `with synchronous_standby_names ${JSON.stringify(names)}, acknowledged commits may be on replicas that do not respond: ${needed} of ${replicas} must, and ${known} did`;
}

/** Why a replica must not take over: the peer must. */
function refusalOf(own: Received, { host, timeline, oldest }: Peer): string {
  return timeline > own.timeline
    ? `${host} has log of timeline ${timeline}, this server only of timeline ${own.timeline}`
    : `${host} has more log, but none before byte ${oldest}, and this server has it up to byte ${own.position}`;
}

interface ReachedPeer extends Peer {
  readonly login: Login;
}

/** Undefined if the server is not a standby or does not respond. */
async function peerAt(host: string, { log, ...access }: TakingOver): Promise<ReachedPeer | undefined> {
  try {
    const { connection: opened, login } = await connectToPeer(host, access);
    await using connection = opened;
    const received = await receivedBy(connection);
    return received && { ...received, host, login };
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    log.warn({ err: error, host }, "could not compare the log with that of another replica");
    return undefined;
  }
}
