import { connect as connectSocket } from "node:net";
import { type ProgramTls, ProgramError } from "@keelson/middleware-agent";
import type pg from "pg";

/** A server that does not respond (`Unreachable`), or that rejected a connection or a statement (`Refused`). */
export class PostgresError extends ProgramError {
  override readonly name = "PostgresError";
  readonly code: "Refused" | "Unreachable";
  /** Error code of the server, such as `28P01`. */
  readonly sqlState: string | undefined;

  constructor(code: PostgresError["code"], message: string, sqlState?: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.sqlState = sqlState;
  }

  /**
   * Whether no rule of the server's `pg_hba.conf` admits the connection. The function that reports it tells this from other invalid
   * authorizations, such as a role that may not log in; the message may be translated.
   */
  get isRejectedByRules(): boolean {
    const { routine } = (this.cause ?? {}) as { readonly routine?: string };
    return this.sqlState === "28000" && routine === "ClientAuthentication";
  }

  /** Whether the server responds that it has no TLS. The message is that of the driver. */
  get isWithoutTls(): boolean {
    return this.code === "Unreachable" && this.message.includes(withoutTls);
  }
}

/** Name of the superuser and of the first database. */
export const superuser = "postgres";
/** Its second login: passwords are rotated between the two. */
export const secondSuperuser = "postgres_b";

/** How to connect with TLS. As between servers, the authority of the certificate is verified and not its names. */
export type PostgresTls = Pick<ProgramTls, "mode"> & {
  /** Undefined: any certificate is accepted. Only to find out whether a server admits connections with TLS. */
  readonly certificates: { readonly current: Pick<ProgramTls["certificates"]["current"], "authorities"> } | undefined;
};

/** Address and credentials of a server. */
export interface PostgresAddress {
  /** Address, or the directory of its socket. */
  readonly host: string;
  readonly port: number;
  /** Login of the superuser. Default `postgres`. */
  readonly user?: string;
  readonly password: string;
  /** Undefined: without TLS. */
  readonly tls?: PostgresTls | undefined;
  /** Timeout of the connection and of every statement. Default 3000. */
  readonly timeoutMs?: number;
  /** The server cancels a statement that takes longer. Default 0: it continues after the client has left. */
  readonly statementTimeoutMs?: number;
}

/** A value of a row. */
export type Value = string | null;

/**
 * Parameters of the agent's sessions. Those of the App must not make its statements wait, fail, or appear in the log with a password.
 * Users must not be able to shadow functions and tables of the system: the agent would call theirs as the superuser.
 */
const sessionParameters = {
  search_path: "pg_catalog",
  synchronous_commit: "local",
  lock_timeout: "0",
  default_transaction_read_only: "off",
  standard_conforming_strings: "on",
  log_statement: "none",
  log_min_duration_statement: "-1",
  log_min_error_statement: "panic",
};

/** The driver's message if the server has no TLS. */
const withoutTls = "does not support SSL connections";

/** A connection as the superuser. Its own writes do not wait for synchronous replicas. */
export class PostgresConnection implements AsyncDisposable {
  readonly #client: pg.Client;
  #failure: Error | undefined;

  private constructor(client: pg.Client) {
    this.#client = client;
    client.on("error", (error) => {
      this.#failure = error;
    });
  }

  /**
   * Connects to a server.
   *
   * **Errors**: a {@link PostgresError}.
   */
  static async open(address: PostgresAddress): Promise<PostgresConnection> {
    const { tls, ...plain } = address;
    if (tls?.mode !== "prefer") return PostgresConnection.#open(address);
    try {
      return await PostgresConnection.#open(address);
    } catch (error) {
      if (!(error instanceof PostgresError && error.isWithoutTls)) throw error;
      return PostgresConnection.#open(plain);
    }
  }

  static async #open({
    host,
    port,
    user = superuser,
    password,
    tls,
    timeoutMs = 3_000,
    statementTimeoutMs = 0,
  }: PostgresAddress): Promise<PostgresConnection> {
    // Loaded on demand: controllers, which know the plugin, need no client.
    const { default: driver } = await import("pg");
    const client = new driver.Client({
      ...{ host, port, user, database: "postgres", password },
      application_name: "keelson",
      ...(tls && { ssl: secureOptions(tls) }),
      options: Object.entries({ ...sessionParameters, statement_timeout: String(statementTimeoutMs) })
        .map(([name, value]) => `-c ${name}=${value}`)
        .join(" "),
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
      // All values as the server prints them.
      types: { getTypeParser: () => (value: unknown) => value },
    });
    const connection = new PostgresConnection(client);
    try {
      await client.connect();
      return connection;
    } catch (error) {
      await connection.close();
      throw convert(error);
    }
  }

  /** Whether the connection has failed. */
  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /** Runs a statement, or several as one transaction. Resolves to the rows of the last one. `timeoutMs` overrides the timeout of the connection. */
  async run(
    text: string,
    values: readonly Value[] = [],
    timeoutMs?: number,
  ): Promise<readonly Readonly<Record<string, Value>>[]> {
    const query: pg.QueryConfig & { query_timeout?: number } = {
      text,
      values: [...values],
      ...(timeoutMs === undefined ? {} : { query_timeout: timeoutMs }),
    };
    try {
      // Several statements have several results.
      const result: pg.QueryResult<Record<string, Value>> | readonly pg.QueryResult<Record<string, Value>>[] =
        await this.#client.query<Record<string, Value>>(query);
      return (isResultList(result) ? result.at(-1) : result)?.rows ?? [];
    } catch (error) {
      const converted = convert(error);
      if (converted.code === "Unreachable") this.#failure ??= converted;
      throw converted;
    }
  }

  async close(): Promise<void> {
    // A connection to a frozen server never ends by itself.
    const { stream } = (this.#client as unknown as { readonly connection: { readonly stream: { destroy(): void } } })
      .connection;
    this.#client.end().catch(() => undefined);
    stream.destroy();
    await Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const isResultList = <T>(result: T | readonly T[]): result is readonly T[] => Array.isArray(result);

const secureOptions = ({ certificates }: PostgresTls): object =>
  certificates === undefined
    ? { rejectUnauthorized: false }
    : { ca: certificates.current.authorities, checkServerIdentity: () => undefined };

/** The own connection of an engine, which reconnects after a failure. */
export class LocalConnection {
  /** The server's own socket. */
  readonly address: PostgresAddress;
  #connection: PostgresConnection | undefined;
  #opening: Promise<PostgresConnection> | undefined;

  constructor(address: PostgresAddress) {
    this.address = address;
  }

  /** Runs a statement and resolves to its first row. */
  async one(text: string, values: readonly Value[] = [], timeoutMs?: number): Promise<Readonly<Record<string, Value>>> {
    const connection = await this.#current();
    return (await connection.run(text, values, timeoutMs))[0] ?? {};
  }

  /**
   * Runs a statement that may take long, and resolves to its first row. It has its own connection: the timeout of another statement
   * must not end it.
   */
  async long(text: string, timeoutMs: number): Promise<Readonly<Record<string, Value>>> {
    await using connection = await PostgresConnection.open(this.address);
    return (await connection.run(text, [], timeoutMs))[0] ?? {};
  }

  async close(): Promise<void> {
    const [connection, opening] = [this.#connection, this.#opening];
    this.#connection = undefined;
    this.#opening = undefined;
    await connection?.close();
    // It belongs to a server that is stopped.
    void opening?.then((opened) => opened.close()).catch(() => undefined);
  }

  /** The connection, opened once for all statements that arrive in the meantime. */
  async #current(): Promise<PostgresConnection> {
    if (this.#connection?.hasFailed === true) await this.close();
    if (this.#connection !== undefined) return this.#connection;
    const opening = (this.#opening ??= PostgresConnection.open(this.address));
    try {
      const connection = await opening;
      if (this.#opening === opening) this.#connection = connection;
      return connection;
    } finally {
      if (this.#opening === opening) this.#opening = undefined;
    }
  }
}

/** Whether nothing listens at an address. False if that is not known. */
export function isConnectionRefused(host: string, port: number, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectSocket({ host, port, timeout: timeoutMs });
    const end = (isRefused: boolean): void => {
      socket.destroy();
      resolve(isRefused);
    };
    socket.once("connect", () => end(false));
    socket.once("timeout", () => end(false));
    socket.once("error", (error: NodeJS.ErrnoException) => end(error.code === "ECONNREFUSED"));
  });
}

function convert(error: unknown): PostgresError {
  if (error instanceof PostgresError) return error;
  const { message, code, severity } = error as Error & { readonly code?: string; readonly severity?: string };
  // An error of the server has a severity; one of the network has not.
  const isRefused = severity !== undefined && code !== undefined && !endsConnection(code);
  return new PostgresError(isRefused ? "Refused" : "Unreachable", message, severity === undefined ? undefined : code, {
    cause: error,
  });
}

/** Codes of a server that shuts down, starts, or ended the session. */
const endsConnection = (code: string): boolean => code.startsWith("57P");
