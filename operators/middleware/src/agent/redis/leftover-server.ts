import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { AgentError } from "@keelson/middleware-agent";
import type { RedisConnection } from "./redis-connection.ts";
import { RespError } from "./resp-client.ts";

const shutdownTimeoutMs = 10_000;

/** The own address, where an earlier agent may have left a server behind. */
export interface LeftoverAddress {
  readonly host: string;
  readonly password: string;
  /** Has the password of an isolated server. */
  readonly connection: RedisConnection;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Shuts down the server of an agent that was killed. It would keep the port, and it may have data that is not on disk.
 *
 * **Errors**: an {@link AgentError} if the server does not end in time.
 */
export async function shutDownLeftover(address: LeftoverAddress): Promise<void> {
  const { host, clock, log } = address;
  const deadline = clock.monotonic() + shutdownTimeoutMs;
  for (;;) {
    try {
      const leftover = await connectToLeftover(address);
      if (leftover === undefined) return;
      log.warn({ host }, "shutting down a server that an earlier agent left behind");
      // The connection ends before a reply.
      await leftover.run("SHUTDOWN").catch(() => undefined);
      leftover.close();
    } catch (error) {
      if (clock.monotonic() > deadline) throw new AgentError("PortInUse", String(error), { cause: error });
    }
    await sleep(clock, 50);
  }
}

/** Connects with either password. Resolves to undefined if no program is listening. */
async function connectToLeftover({ host, password, connection }: LeftoverAddress): Promise<RedisConnection | undefined> {
  try {
    return await connection.connectTo(host, password);
  } catch (error) {
    if (error instanceof RespError && error.isConnectionRefused) return undefined;
    if (error instanceof RespError && error.code === "Refused") return connection.connectTo(host);
    throw error;
  }
}
