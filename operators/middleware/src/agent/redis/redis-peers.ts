import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Outcome } from "@keelson/middleware-agent";
import { isolationPassword } from "./leftover-server.ts";
import { pointAt } from "./point-at.ts";
import type { RedisConnection } from "./redis-connection.ts";
import type { RedisParameters } from "./redis-parameters.ts";
import { hasCaughtUp, RedisFence } from "./redis-switchover.ts";
import { RespError } from "./resp-client.ts";

/** The own server, and how to reach those of other Pods. */
export interface Peers {
  readonly connection: RedisConnection;
  readonly parameters: RedisParameters;
  /** Passwords that other servers may have. */
  readonly passwords: () => readonly string[];
  readonly port: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Connects to the server of another Pod. Rejects with a {@link RespError}: `isWrongPassword` if it accepts none of the passwords. */
export async function connectToPeer(
  { connection, passwords }: Pick<Peers, "connection" | "passwords">,
  host: string,
): Promise<RedisConnection> {
  let refusal: unknown;
  for (const password of passwords()) {
    try {
      return await connection.connectTo(host, password);
    } catch (error) {
      if (!(error instanceof RespError) || !error.isWrongPassword) throw error;
      refusal = error;
    }
  }
  throw refusal;
}

/** Ensures that a failed primary accepts no more writes, and that this replica has all that it accepted. */
export async function fencePrimary(peers: Peers, primary: string, timeoutMs: number): Promise<Outcome> {
  const { connection, parameters, clock } = peers;
  let peer: RedisConnection | undefined;
  try {
    peer = await connectToPeer(peers, primary);
    if ((await peer.info("replication")).role === "slave") return { ok: true };
    await RedisFence.raise(peer);
    if (await hasCaughtUp(peer, connection, timeoutMs, clock)) return { ok: true };
    await peer.run("CONFIG", "SET", "min-replicas-to-write", parameters.minReplicasToWrite);
    return { ok: false, error: `could not catch up with the primary ${primary} within ${timeoutMs} ms` };
  } catch (error) {
    if (!(error instanceof RespError)) throw error;
    if (error.isConnectionRefused) return { ok: true };
    // A wrong password alone proves nothing: the primary may have a newer one and accept writes.
    if (error.isWrongPassword && (await isIsolated(peers, primary))) return { ok: true };
    return { ok: false, error: `the primary ${primary} does not respond: ${error.message}`, mustTerminate: true };
  } finally {
    peer?.close();
  }
}

/** Whether a server was restarted and has no role yet. False if that is not known. */
async function isIsolated({ connection, passwords }: Peers, host: string): Promise<boolean> {
  try {
    const isolated = passwords().map((password) => isolationPassword(password));
    (await connectToPeer({ connection, passwords: () => isolated }, host)).close();
    return true;
  } catch (error) {
    if (!(error instanceof RespError)) throw error;
    return false;
  }
}

/** Makes other replicas follow a new primary. Failures are logged: the controller repeats this when they answer. */
export async function repoint(peers: Peers, others: readonly string[], primary: string): Promise<void> {
  for (const other of others) {
    try {
      const peer = await connectToPeer(peers, other);
      await pointAt(peer, primary, peers.port);
      peer.close();
    } catch (error) {
      peers.log.warn({ err: error, other }, "could not make a replica follow the new primary");
    }
  }
}
