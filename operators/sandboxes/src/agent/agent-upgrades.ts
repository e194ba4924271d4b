import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Program } from "@keelson/execution";
import { execProtocol } from "../protocol/exec-frames.ts";
import { agentPaths, isPort } from "../protocol/protocol.ts";
import type { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { endUpgrade, execSpec, execStatus, RequestError, sandboxNotFound, urlOf } from "./agent-http.ts";
import { serveExec } from "./serve-exec.ts";
import { openPortSocket, servePort } from "./serve-port.ts";

/** Options of {@link AgentUpgrades}. */
export interface AgentUpgradesOptions {
  readonly manager: SandboxManager;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Maximum number of connections of each kind. */
const maxConnections = { command: 256, port: 1024 } as const;

/** The connections of an agent's API that are upgraded: commands, and connections to exposed ports. */
export class AgentUpgrades {
  readonly #options: AgentUpgradesOptions;
  readonly #open = { command: new Set<Duplex>(), port: new Set<Duplex>() };

  constructor(options: AgentUpgradesOptions) {
    this.#options = options;
  }

  /** Serves an upgrade until its connection ends, or rejects it with a status. */
  async serve(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy());
    try {
      await this.#serve(request, socket, head);
    } catch (error) {
      const status = error instanceof RequestError ? error.code : execStatus(error);
      if (status === 500) this.#options.log.error({ err: error }, "could not serve a connection to a sandbox");
      endUpgrade(socket, status, error);
    }
  }

  close(): void {
    for (const sockets of Object.values(this.#open)) for (const socket of sockets) socket.destroy();
  }

  async #serve(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { pathname, searchParams } = urlOf(request);
    const isExec = pathname === agentPaths.exec || pathname === agentPaths.execAs;
    const isKnown = isExec || pathname === agentPaths.connect;
    if (!isKnown || request.headers.upgrade !== execProtocol)
      throw new RequestError(404, `upgrade not supported; use ${agentPaths.exec} with ${execProtocol}`);
    const program = this.#options.manager.program(searchParams.get("sandboxId") ?? "");
    if (program === undefined) throw sandboxNotFound();
    if (isExec) await this.#exec(program, searchParams, socket, head);
    else await this.#connect(program, searchParams, socket, head);
  }

  async #exec(program: Program, query: URLSearchParams, socket: Duplex, head: Buffer): Promise<void> {
    const requested = execSpec(query);
    this.#register("command", program, socket);
    const session = await program.exec(requested);
    if (socket.destroyed) return session.kill();
    accept(socket);
    await serveExec(socket, head, session);
  }

  async #connect(program: Program, query: URLSearchParams, socket: Duplex, head: Buffer): Promise<void> {
    const { manager, clock } = this.#options;
    const port = Number(query.get("port"));
    if (!isPort(port)) throw new RequestError(400, "port: must be 1 to 65535");
    this.#register("port", program, socket);
    const gone = new AbortController();
    socket.once("close", () => gone.abort());
    const target = await openPortSocket({ manager, clock, program, port, signal: gone.signal });
    if (socket.destroyed) return void target.destroy();
    accept(socket);
    await servePort(socket, head, target);
  }

  /** Registers a use of a sandbox before the first await, so that a caller that disconnects is noticed. */
  #register(kind: keyof typeof maxConnections, program: Program, socket: Duplex): void {
    const open = this.#open[kind];
    const limit = maxConnections[kind];
    if (open.size >= limit) throw new RequestError(429, `too many ${kind} connections: must be at most ${limit} per agent`);
    open.add(socket);
    const endUse = this.#options.manager.use(program.id);
    socket.once("close", () => {
      open.delete(socket);
      endUse();
    });
  }
}

function accept(socket: Duplex): void {
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${execProtocol}\r\n\r\n`);
}
