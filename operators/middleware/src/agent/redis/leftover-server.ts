import { createHash } from "node:crypto";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { AgentError } from "@keelson/middleware-agent";
import type { RedisConnection } from "./redis-connection.ts";
import { RespError } from "./resp-client.ts";

const shutdownTimeoutMs = 10_000;

/** The own address, where an earlier agent may have left a server behind. */
export interface LeftoverAddress {
  readonly host: string;
  /** Passwords that it may have with a role, or be isolated with. */
  readonly passwords: readonly string[];
  readonly connection: RedisConnection;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Password of a server without a role. Derived, so that the next agent can shut the server down if this one is killed. */
export function isolationPassword(password: string): string {
  return createHash("sha256").update(`isolated:${password}`).digest("hex");
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

/** Connects with any of the passwords. Resolves to undefined if no program is listening. */
async function connectToLeftover({ host, passwords, connection }: LeftoverAddress): Promise<RedisConnection | undefined> {
  let refusal: unknown;
  for (const password of [...passwords, ...passwords.map(isolationPassword)]) {
    try {
      return await connection.connectTo(host, password);
    } catch (error) {
      if (error instanceof RespError && error.isConnectionRefused) return undefined;
      if (!(error instanceof RespError) || error.code !== "Refused") throw error;
      refusal = error;
    }
  }
  throw refusal;
}
