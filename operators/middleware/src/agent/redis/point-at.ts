import type { RedisConnection } from "./redis-connection.ts";
import { isListening } from "./redis-tls.ts";

const probeTimeoutMs = 500;

/**
 * Makes a server follow a primary: with TLS if its mode requires that, or if the primary offers it. The server itself says which ports it
 * has, so that an agent without TLS can do this for a Pod that was changed before its own.
 *
 * @param port the port without TLS
 */
export async function pointAt(replica: RedisConnection, primary: string, port: number): Promise<void> {
  const [tlsPort, plainPort] = [await portOf(replica, "tls-port"), await portOf(replica, "port")];
  if (tlsPort === 0) return void (await replica.run("REPLICAOF", primary, String(port)));
  const isSecure = plainPort === 0 || (await isListening(primary, tlsPort, probeTimeoutMs));
  await replica.run("CONFIG", "SET", "tls-replication", isSecure ? "yes" : "no");
  await replica.run("REPLICAOF", primary, String(isSecure ? tlsPort : port));
}

/** A port of a server; 0 if it does not use or know it. */
async function portOf(server: RedisConnection, name: string): Promise<number> {
  const [, value] = (await server.run("CONFIG", "GET", name)) as readonly string[];
  return Number(value ?? 0);
}
