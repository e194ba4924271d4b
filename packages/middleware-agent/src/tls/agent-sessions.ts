import { connect } from "node:tls";
import { GrpcSessions } from "@keelson/sandbox/grpc";
import { type AgentIdentity, clientOptions } from "./agent-identity.ts";

/** Address of an agent, and how to reach it. */
export interface AgentSessionOptions {
  readonly host: string;
  readonly port: number;
  /** Called for every connection: certificates are rotated. Undefined: without TLS. */
  readonly identity: () => AgentIdentity | undefined;
  readonly pingIntervalMs: number;
  readonly pingTimeoutMs: number;
  readonly idleConnectionTimeoutMs?: number;
}

const probeTimeoutMs = 1_000;

/**
 * The connection to one agent, for `sessionManager` of a transport. With the `prefer` mode, an agent that does not offer TLS is reached
 * without it; one whose certificate is not valid is not reached at all.
 */
export class AgentSessions {
  readonly authority: string;
  readonly #options: AgentSessionOptions;
  readonly #secure: GrpcSessions;
  readonly #plain: GrpcSessions;
  #choosing: Promise<GrpcSessions> | undefined;

  constructor(options: AgentSessionOptions) {
    const { host, port, identity, ...pings } = options;
    const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
    this.#options = options;
    this.authority = `http://${address}`;
    this.#plain = new GrpcSessions(this.authority, pings);
    this.#secure = new GrpcSessions(`https://${address}`, pings, {
      createConnection: () => {
        const own = identity();
        return connect({ host, port, ...(own === undefined ? {} : clientOptions(own)) });
      },
    });
  }

  async request(...args: Parameters<GrpcSessions["request"]>): ReturnType<GrpcSessions["request"]> {
    return (await this.#choose()).request(...args);
  }

  notifyResponseByteRead(...args: Parameters<GrpcSessions["notifyResponseByteRead"]>): void {
    for (const each of [this.#secure, this.#plain]) each.notifyResponseByteRead(...args);
  }

  abort(): void {
    this.#secure.abort();
    this.#plain.abort();
  }

  #choose(): Promise<GrpcSessions> {
    const mode = this.#options.identity()?.mode;
    if (mode === undefined) return Promise.resolve(this.#plain);
    if (mode === "require" || isConnected(this.#secure)) return Promise.resolve(this.#secure);
    if (isConnected(this.#plain)) return Promise.resolve(this.#plain);
    this.#choosing ??= this.#offersTls()
      .then((offers) => (offers ? this.#secure : this.#plain))
      .finally(() => {
        this.#choosing = undefined;
      });
    return this.#choosing;
  }

  /** False only if the other side does not speak TLS. */
  #offersTls(): Promise<boolean> {
    const { host, port, identity } = this.#options;
    const own = identity();
    if (own === undefined) return Promise.resolve(false);
    return new Promise((resolve) => {
      const socket = connect({ host, port, ...clientOptions(own), timeout: probeTimeoutMs });
      const end = (offers: boolean): void => {
        resolve(offers);
        socket.destroy();
      };
      socket.once("secureConnect", () => end(true));
      socket.once("timeout", () => end(true));
      socket.on("error", (error: NodeJS.ErrnoException) =>
        end(error.code !== "ERR_SSL_WRONG_VERSION_NUMBER" && error.code !== "EPROTO"),
      );
    });
  }
}

const isConnected = (sessions: GrpcSessions): boolean => !["closed", "error"].includes(sessions.state());
