import { rm } from "node:fs/promises";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { FailoverOrder, Outcome } from "@keelson/middleware-agent";
import { readJson, writeJson } from "@keelson/middleware-agent";
import { fence } from "./redis-config.ts";
import type { RedisConnection, RedisInfo } from "./redis-connection.ts";
import type { RedisParameters } from "./redis-parameters.ts";
import { RespError } from "./resp-client.ts";

/** Maximum replication lag of a replica at the start of a switchover. */
const maxLagBytes = 16 * 1_048_576;

/** The persistent write fence of the own server. */
export class RedisFence {
  readonly #connection: RedisConnection;
  readonly #parameters: RedisParameters;
  readonly #file: string;

  constructor(connection: RedisConnection, parameters: RedisParameters, file: string) {
    this.#connection = connection;
    this.#parameters = parameters;
    this.#file = file;
  }

  /** Makes a server reject all writes. */
  static async raise(connection: RedisConnection): Promise<void> {
    await connection.run("CONFIG", "SET", "min-replicas-to-write", fence);
  }

  /** Whether a server rejects all writes. */
  static async isEffective(connection: RedisConnection): Promise<boolean> {
    const [, value] = (await connection.run("CONFIG", "GET", "min-replicas-to-write")) as readonly string[];
    return value === fence;
  }

  /** Whether a switchover raised the fence. */
  async isRaised(): Promise<boolean> {
    return (await readJson(this.#file)) !== undefined;
  }

  /** Persists the reason and makes the own server reject all writes. */
  async raise(reason: object): Promise<void> {
    await writeJson(this.#file, reason);
    await RedisFence.raise(this.#connection);
  }

  /** Accepts writes again. */
  async lower(): Promise<void> {
    await this.#connection.run("CONFIG", "SET", "min-replicas-to-write", this.#parameters.minReplicasToWrite);
    await rm(this.#file, { force: true });
  }
}

/** The primary that hands over. */
export interface HandOver {
  readonly host: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly connection: RedisConnection;
  /** Connects to the server of another Pod. */
  readonly connectTo: (host: string) => Promise<RedisConnection>;
  readonly fence: RedisFence;
}

/** Fences the primary, waits for the target and promotes it. Rejects if it is not known whether the target was promoted. */
export async function promoteTarget(
  order: FailoverOrder & { readonly offset: number },
  { host, clock, log, connection, connectTo, fence: own }: HandOver,
): Promise<Outcome> {
  const { target, epoch, timeoutMs } = order;
  const peer = await connectTo(target).catch((error: unknown) => {
    if (error instanceof RespError) return error;
    throw error;
  });
  if (peer instanceof RespError) return { ok: false, error: `the target does not respond: ${peer.message}` };
  try {
    const seen = await peer.info();
    if (seen.role === "master" && (await own.isRaised())) return { ok: true };
    const obstacle = obstacleOf(seen, host, order.offset);
    if (obstacle !== undefined) return { ok: false, error: obstacle };
    await own.raise({ target, epoch });
    if (!(await hasCaughtUp(connection, peer, timeoutMs, clock))) {
      if (order.mayResume?.() ?? true) await own.lower();
      return { ok: false, error: `the target did not catch up within ${timeoutMs} ms` };
    }
    const permission = await order.beforePromotion?.();
    if (permission?.ok === false) return permission;
    if (permission?.promotesItself === true) await untilPromoted(peer, target, timeoutMs, clock);
    else await peer.run("REPLICAOF", "NO", "ONE");
    return { ok: true };
  } catch (error) {
    log.warn({ err: error, target }, "switchover interrupted; writes stay fenced until it is retried");
    throw error;
  } finally {
    peer.close();
  }
}

/** Waits until the agent of the target has promoted it. Rejects after the timeout: it may still be promoted. */
async function untilPromoted(peer: RedisConnection, target: string, timeoutMs: number, clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + timeoutMs;
  while ((await peer.info("replication")).role !== "master") {
    if (clock.monotonic() > deadline) throw new RespError("Unreachable", `${target} was not promoted within ${timeoutMs} ms`);
    await sleep(clock, 5);
  }
}

/** Waits until a replica has every byte of its fenced primary. */
export async function hasCaughtUp(
  primary: RedisConnection,
  replica: RedisConnection,
  timeoutMs: number,
  clock: Clock,
): Promise<boolean> {
  const deadline = clock.monotonic() + timeoutMs;
  for (;;) {
    const written = Number((await primary.info("replication")).master_repl_offset);
    if (Number((await replica.info("replication")).slave_repl_offset) >= written) return true;
    if (clock.monotonic() > deadline) return false;
    await sleep(clock, 2);
  }
}

function obstacleOf(seen: RedisInfo, host: string, offset: number): string | undefined {
  if (seen.role !== "slave") return "the target is not a replica";
  if (seen.master_host !== host) return `the target follows ${seen.master_host}`;
  if (seen.master_link_status !== "up" || seen.master_sync_in_progress !== "0")
    return "the target is not in sync: its replication link is down";
  const lag = offset - Number(seen.slave_repl_offset);
  return lag > maxLagBytes ? `the target lags ${lag} bytes behind` : undefined;
}
