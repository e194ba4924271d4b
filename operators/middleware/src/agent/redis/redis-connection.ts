import type { Clock } from "@keelson/api-machinery/time";
import type { RedisTls } from "./redis-tls.ts";
import { connectResp, parseInfo, type Reply, type RespClient, RespError } from "./resp-client.ts";

/** Fields of an INFO reply. */
export type RedisInfo = Readonly<Record<string, string>>;

/** Address and credentials of a Redis server. */
export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly password: string;
  /** Undefined: without TLS. */
  readonly tls?: RedisTls | undefined;
  /** Without `tls`: the port on which servers may accept connections with TLS. */
  readonly tlsPort?: number | undefined;
  readonly clock: Clock;
}

const commandTimeoutMs = 1_500;

/** A connection to a Redis server that reconnects after a failure. */
export class RedisConnection {
  #address: RedisAddress;
  #client: RespClient | undefined;

  constructor({ host, port, password, tls, tlsPort, clock }: RedisAddress) {
    this.#address = { host, port, password, tls, tlsPort, clock };
  }

  /** Sets the password of later connections. The current one stays authenticated. */
  set password(password: string) {
    this.#address = { ...this.#address, password };
  }

  /** Connects to the server of another Pod, which has the same port. Rejects with a {@link RespError}. */
  async connectTo(host: string, password = this.#address.password): Promise<RedisConnection> {
    const peer = new RedisConnection({ ...this.#address, host, password });
    await peer.#connect();
    return peer;
  }

  /** Whether no program is listening at the address of another Pod. False if that is not known. */
  async isRefusedBy(host: string): Promise<boolean> {
    try {
      (await this.connectTo(host)).close();
      return false;
    } catch (error) {
      return error instanceof RespError && error.isConnectionRefused;
    }
  }

  /** Runs a command. A failed connection is dropped, and the next command opens a new one. Rejects with a {@link RespError}. */
  async run(...words: readonly string[]): Promise<Reply> {
    try {
      return await (await this.#connect()).command(...words);
    } catch (error) {
      if (!(error instanceof RespError) || error.code === "Refused") throw error;
      this.close();
      throw error;
    }
  }

  /** The fields of INFO, or of one section. */
  async info(section?: string): Promise<RedisInfo> {
    return parseInfo(await this.run("INFO", ...(section === undefined ? [] : [section])));
  }

  close(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  async #connect(): Promise<RespClient> {
    this.#client ??= await connectResp({ ...this.#address, timeoutMs: commandTimeoutMs });
    return this.#client;
  }
}

/** Number of keys in all databases, from lines such as `db0:keys=3,expires=0`. */
export function keysOf(fields: RedisInfo): number {
  return Object.entries(fields).reduce((sum, [name, value]) => {
    const keys = /^db\d+$/.test(name) ? /^keys=(\d+)/.exec(value)?.[1] : undefined;
    return sum + Number(keys ?? 0);
  }, 0);
}
