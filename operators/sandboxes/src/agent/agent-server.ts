import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { type ExecSpec, ExecutionError } from "@keelson/execution";
import { hasToken } from "../bearer-token.ts";
import { execProtocol, isTerminalSize } from "../protocol/exec-frames.ts";
import { readLog } from "./log-follow.ts";
import { agentPaths, parseAgentSandbox, parseExpiryChange } from "../protocol/protocol.ts";
import type { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { serveExec } from "./serve-exec.ts";

/** Options of {@link startAgentServer}. */
export interface AgentServerOptions {
  readonly manager: SandboxManager;
  readonly token: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly bindAddress: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** An agent's HTTP API that listens. */
export interface AgentServer {
  readonly url: string;
  close(): Promise<void>;
}

const mostBodyBytes = 1 << 20;
const mostStreams = 256;
/** How often a stream of statuses says something where nothing changes, so that a lost connection is noticed. */
export const statusHeartbeatMs = 5_000;

class BadRequest extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * Serves an agent's API: create, delete, status and logs under fast-sandbox's paths, each only with the bearer token. Ours:
 * `status?watch=true` is a stream of statuses, one JSON a line, at once, after each change and every 5 seconds.
 */
export async function startAgentServer(options: AgentServerOptions): Promise<AgentServer> {
  const { manager, token, clock, log } = options;
  const streams = new Set<AbortController>();

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://agent");
    if (!hasToken(request.headers.authorization, token)) throw new BadRequest(401, "a bearer token is needed");
    switch (url.pathname) {
      case agentPaths.create: {
        const parsed = parseAgentSandbox(await body(request));
        if ("problem" in parsed) throw new BadRequest(400, parsed.problem);
        const created = await manager.create(parsed.sandbox);
        return send(response, created.success ? 200 : created.rejected === true ? 409 : 500, created);
      }
      case agentPaths.delete: {
        const value = await body(request);
        const id = typeof value === "object" && value !== null && "sandboxId" in value ? String(value.sandboxId) : "";
        void manager
          .delete(id)
          .catch((error: unknown) => log.error({ err: error, sandboxId: id }, "a sandbox could not be deleted"));
        return send(response, 200, { success: true });
      }
      case agentPaths.expire: {
        const change = parseExpiryChange(await body(request));
        if ("problem" in change) throw new BadRequest(400, change.problem);
        if (!(await manager.expire(change.sandboxId, change.expiresAtMs)))
          throw new BadRequest(404, "there is no such sandbox on this agent");
        return send(response, 200, { success: true });
      }
      case agentPaths.status: {
        if (request.method !== "GET") throw new BadRequest(405, "only GET");
        if (url.searchParams.get("watch") !== "true") return send(response, 200, manager.status());
        return watchStatus(request, response);
      }
      case agentPaths.logs: {
        if (request.method !== "GET") throw new BadRequest(405, "only GET");
        const program = manager.program(url.searchParams.get("sandboxId") ?? "");
        if (program === undefined) throw new BadRequest(404, "there is no such sandbox on this agent");
        return stream(request, response, "text/plain; charset=utf-8", (signal) =>
          readLog(program, { follow: url.searchParams.get("follow") === "true", signal }),
        );
      }
      default:
        throw new BadRequest(404, "there is nothing at this path");
    }
  }

  async function* statuses(signal: AbortSignal): AsyncGenerator<string> {
    let wake: () => void = () => {};
    let isDirty = true;
    const notify = (): void => {
      isDirty = true;
      wake();
    };
    const stop = manager.onChange(notify);
    signal.addEventListener("abort", notify, { once: true });
    try {
      while (!signal.aborted) {
        isDirty = false;
        yield `${JSON.stringify(manager.status())}\n`;
        if (isDirty) continue;
        const timer = clock.setTimer(statusHeartbeatMs, notify, { background: true });
        await new Promise<void>((resolve) => (wake = resolve));
        timer.cancel();
      }
    } finally {
      stop();
    }
  }

  const watchStatus = (request: IncomingMessage, response: ServerResponse): Promise<void> =>
    stream(request, response, "application/x-ndjson", statuses);

  async function stream(
    request: IncomingMessage,
    response: ServerResponse,
    type: string,
    read: (signal: AbortSignal) => AsyncIterable<string | Buffer>,
  ): Promise<void> {
    if (streams.size >= mostStreams) throw new BadRequest(429, `there are ${mostStreams} streams already`);
    const control = new AbortController();
    streams.add(control);
    request.once("close", () => response.writableFinished || control.abort());
    response.once("close", () => control.abort());
    response.writeHead(200, { "content-type": type });
    response.flushHeaders();
    try {
      for await (const chunk of read(control.signal)) {
        if (!response.write(chunk)) await Promise.race([once(response, "drain"), once(response, "close")]);
        if (control.signal.aborted) break;
      }
    } finally {
      streams.delete(control);
      response.end();
    }
  }

  const server: Server = createServer(
    { requestTimeout: 30_000, headersTimeout: 10_000, maxHeaderSize: 16_384 },
    (request, response) => {
      answer(request, response).catch((error: unknown) => {
        const status = error instanceof BadRequest ? error.status : 500;
        if (status === 500) log.error({ err: error }, "a request to the agent failed");
        if (response.headersSent) response.destroy();
        else send(response, status, { success: false, message: error instanceof Error ? error.message : String(error) });
      });
    },
  );
  async function exec(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const url = new URL(request.url ?? "/", "http://agent");
    if (!hasToken(request.headers.authorization, token)) throw new BadRequest(401, "a bearer token is needed");
    if (url.pathname !== agentPaths.exec || request.headers.upgrade !== execProtocol)
      throw new BadRequest(404, `only ${agentPaths.exec} speaks another protocol: ${execProtocol}`);
    const program = manager.program(url.searchParams.get("sandboxId") ?? "");
    if (program === undefined) throw new BadRequest(404, "there is no such sandbox on this agent");
    if (commands.size >= mostStreams) throw new BadRequest(429, `there are ${mostStreams} commands already`);
    const asked = execSpec(url.searchParams);
    // Before anything is waited for: a caller that goes away meanwhile is noticed.
    commands.add(socket);
    socket.once("close", () => commands.delete(socket));
    const session = await program.exec(asked);
    if (socket.destroyed) return session.kill();
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${execProtocol}\r\n\r\n`);
    await serveExec(socket, head, session);
  }

  const commands = new Set<Duplex>();
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    exec(request, socket, head).catch((error: unknown) => {
      const status = error instanceof BadRequest ? error.status : execStatus(error);
      if (status === 500) log.error({ err: error }, "a command in a sandbox failed");
      const text = JSON.stringify({ success: false, message: error instanceof Error ? error.message : String(error) });
      socket.end(
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\nContent-Type: application/json\r\n` +
          `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
      );
    });
  });
  server.listen(options.port, options.bindAddress);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${options.bindAddress}:${port}`,
    async close() {
      for (const control of streams) control.abort();
      for (const socket of commands) socket.destroy();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** What is to run, from a query: `command` once a word, and `columns` and `rows` for one with a terminal. */
function execSpec(query: URLSearchParams): ExecSpec {
  const [first, ...rest] = query.getAll("command");
  if (first === undefined || first === "") throw new BadRequest(400, "command: must name a program");
  if (!query.has("columns")) return { command: [first, ...rest] };
  const terminal = { columns: Number(query.get("columns")), rows: Number(query.get("rows")) };
  if (!isTerminalSize(terminal)) throw new BadRequest(400, "columns, rows: must be 1 to 10000");
  return { command: [first, ...rest], terminal };
}

/** What is the caller's fault, or the sandbox's state, of what the driver throws. */
const execStatus = (error: unknown): number => {
  if (!(error instanceof ExecutionError)) return 500;
  return error.code === "InvalidSpec" ? 400 : error.code === "NotRunning" ? 409 : 500;
};

function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

async function body(request: IncomingMessage): Promise<unknown> {
  if (request.method !== "POST") throw new BadRequest(405, "only POST");
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostBodyBytes) throw new BadRequest(413, "the body is above 1 MiB");
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8")) as unknown;
  } catch {
    throw new BadRequest(400, "the body is no JSON");
  }
}
