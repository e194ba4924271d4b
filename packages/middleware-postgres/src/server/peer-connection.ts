import type { AgentPassword, EngineOptions } from "@keelson/middleware-agent";
import { PostgresConnection, PostgresError, superuser } from "./postgres-client.ts";

/** A login of the superuser at the servers of an App. */
export interface Login {
  readonly user: string;
  readonly password: string;
}

/** How to reach the servers of other Pods. */
export type PeerAccess = Pick<EngineOptions, "port" | "tls"> & {
  /** Logins that another server may accept, the most likely first. */
  readonly logins: () => readonly [Login, ...Login[]];
};

/** Error code of a server that does not accept a password. */
const wrongPassword = "28P01";

/** The login of a password of the agents. */
export const loginOf = ({ login = superuser, password }: AgentPassword): Login => ({ user: login, password });

/**
 * Connects to the server of another Pod with the first login that it accepts. Resolves to that login too. Rejects with a `PostgresError`.
 */
export async function connectToPeer(
  host: string,
  { port, tls, logins }: PeerAccess,
  timeoutMs?: number,
): Promise<{ readonly connection: PostgresConnection; readonly login: Login }> {
  const address = { host, port, tls, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
  const [first, ...others] = logins();
  let rejection: PostgresError | undefined;
  for (const login of [first, ...others]) {
    try {
      return { connection: await PostgresConnection.open({ ...address, ...login }), login };
    } catch (error) {
      if (!(error instanceof PostgresError && error.sqlState === wrongPassword)) throw error;
      rejection ??= error;
    }
  }
  throw rejection ?? new PostgresError("Unreachable", `${host} was not asked`);
}
