import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Program } from "@keelson/execution";
import { serverTlsOptions } from "../protocol/tls-psk.ts";
import { asRequestError, body, failureOf, RequestError, requireGet, sandboxNotFound, send, urlOf } from "./agent-http.ts";
import { FileHelpers } from "../files/file-helpers.ts";
import { FolderWatches } from "../files/folder-watches.ts";
import { answerFiles, openFolderWatch, watchLines } from "./file-requests.ts";
import { answerProcesses, openProcessOutput } from "./process-requests.ts";
import { SandboxProcesses } from "../processes/sandbox-processes.ts";
import { limitHandshakes } from "./handshake-limit.ts";
import { AgentUpgrades } from "./agent-upgrades.ts";
import { readLog } from "./log-follow.ts";
import { agentPaths, parseAgentSandbox, parseExpiryChange, parseSandboxId, parseVolumeChange } from "../protocol/protocol.ts";
import { VolumeError } from "../volumes/volume-error.ts";
import { whenWritable } from "../protocol/when-writable.ts";
import type { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { streamStatuses } from "./status-stream.ts";

/** Options of {@link startAgentServer}. */
export interface AgentServerOptions {
  readonly manager: SandboxManager;
  readonly token: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly bindAddress: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A listening agent API. */
export interface AgentServer {
  readonly url: string;
  close(): Promise<void>;
}

const maxStreams = 256;
/** The command of an exec is in its URL. Only the operator, authenticated by TLS, can send a request at all. */
const maxHeaderBytes = 1 << 20;
/** Longer than the operator's pauses between requests, so that connections are reused. */
const keepAliveMs = 60_000;

/**
 * Serves an agent's API: create, delete, status and logs under fast-sandbox's paths. TLS with the pre-shared `token` authenticates the
 * operator before it can send a request. Keelson's own: `status?watch=true` streams statuses as JSON lines, immediately, after each
 * change and every 5 seconds.
 */
export async function startAgentServer(options: AgentServerOptions): Promise<AgentServer> {
  const server = new HttpsAgentServer(options);
  await server.listen();
  return server;
}

const volumeStatus: Readonly<Record<VolumeError["code"], number>> = {
  InUse: 409,
  NotFound: 404,
  Unsupported: 501,
  Failed: 507,
};

type Answer = (request: IncomingMessage, response: ServerResponse, query: URLSearchParams) => Promise<void>;

class HttpsAgentServer implements AgentServer {
  url = "";
  readonly #options: AgentServerOptions;
  readonly #server: Server;
  readonly #helpers: FileHelpers;
  readonly #watches: FolderWatches;
  readonly #processes: SandboxProcesses;
  readonly #streams = new Set<AbortController>();
  /** Streams that clients have caused, see {@link maxStreams}. */
  #clientStreams = 0;
  readonly #upgrades: AgentUpgrades;
  readonly #answers: ReadonlyMap<string, Answer> = new Map<string, Answer>([
    [agentPaths.create, (request, response) => this.#create(request, response)],
    [agentPaths.delete, (request, response) => this.#delete(request, response)],
    [agentPaths.expire, (request, response) => this.#expire(request, response)],
    [agentPaths.pause, (request, response) => this.#pause(request, response)],
    [agentPaths.resume, (request, response) => this.#resume(request, response)],
    [agentPaths.volumes, (request, response) => this.#volumes(request, response)],
    [agentPaths.files, (request, response, query) => this.#files(request, response, query)],
    [agentPaths.watchFiles, (request, response, query) => this.#watchFiles(request, response, query)],
    [agentPaths.processes, (request, response, query) => this.#runProcesses(request, response, query)],
    [agentPaths.processesAs, (request, response, query) => this.#runProcesses(request, response, query)],
    [agentPaths.processOutput, (request, response, query) => this.#processOutput(request, response, query)],
    [agentPaths.status, (request, response, query) => this.#status(request, response, query)],
    [agentPaths.usage, (request, response) => this.#usage(request, response)],
    [agentPaths.logs, (request, response, query) => this.#logs(request, response, query)],
  ]);

  constructor(options: AgentServerOptions) {
    this.#options = options;
    this.#helpers = new FileHelpers(options.clock);
    this.#watches = new FolderWatches(options.clock);
    this.#processes = new SandboxProcesses(options.clock, (sandboxId) => options.manager.use(sandboxId));
    this.#server = createServer(
      {
        ...serverTlsOptions(options.token),
        handshakeTimeout: 10_000,
        requestTimeout: 30_000,
        headersTimeout: 10_000,
        maxHeaderSize: maxHeaderBytes,
      },
      (request, response) => {
        this.#answer(request, response).catch((error: unknown) => this.#answerError(response, error));
      },
    );
    limitHandshakes(this.#server);
    this.#server.keepAliveTimeout = keepAliveMs;
    this.#upgrades = new AgentUpgrades(options);
    this.#server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      void this.#upgrades.serve(request, socket, head);
    });
  }

  async listen(): Promise<void> {
    const { port, bindAddress } = this.#options;
    this.#server.listen(port, bindAddress);
    await once(this.#server, "listening");
    this.url = `https://${bindAddress}:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#helpers.close();
    this.#watches.close();
    for (const control of this.#streams) control.abort();
    this.#upgrades.close();
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = urlOf(request);
    const answer = this.#answers.get(pathname);
    if (answer === undefined) throw new RequestError(404, "path not found");
    await answer(request, response, searchParams);
  }

  #answerError(response: ServerResponse, error: unknown): void {
    const status = error instanceof RequestError ? error.code : 500;
    if (status === 500) this.#options.log.error({ err: error }, "request failed");
    if (response.headersSent) response.destroy();
    else send(response, status, failureOf(error));
  }

  async #create(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parsed = parseAgentSandbox(await body(request));
    if ("problem" in parsed) throw new RequestError(400, parsed.problem);
    const created = await this.#options.manager.create(parsed.sandbox);
    send(response, created.success ? 200 : created.rejected === true ? 409 : 500, created);
  }

  async #delete(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { manager, log } = this.#options;
    const value = await body(request);
    const id = typeof value === "object" && value !== null && "sandboxId" in value ? String(value.sandboxId) : "";
    manager.delete(id).catch((error: unknown) => log.error({ err: error, sandboxId: id }, "could not delete a sandbox"));
    send(response, 200, { success: true });
  }

  async #expire(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const change = parseExpiryChange(await body(request));
    if ("problem" in change) throw new RequestError(400, change.problem);
    if (!(await this.#options.manager.expire(change.sandboxId, change.expiresAtMs))) throw sandboxNotFound();
    send(response, 200, { success: true });
  }

  async #pause(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parsed = parseSandboxId(await body(request));
    if ("problem" in parsed) throw new RequestError(400, parsed.problem);
    if (!(await this.#options.manager.pause(parsed.sandboxId).catch(asRequestError))) throw sandboxNotFound();
    send(response, 200, { success: true });
  }

  async #resume(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const change = parseExpiryChange(await body(request));
    if ("problem" in change) throw new RequestError(400, change.problem);
    const { sandboxId, expiresAtMs } = change;
    if (!(await this.#options.manager.resume(sandboxId, expiresAtMs).catch(asRequestError))) throw sandboxNotFound();
    send(response, 200, { success: true });
  }

  async #volumes(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const change = parseVolumeChange(await body(request));
    if ("problem" in change) throw new RequestError(400, change.problem);
    await this.#options.manager.changeVolume(change).catch((error: unknown) => {
      throw error instanceof VolumeError ? new RequestError(volumeStatus[error.code], error.message) : error;
    });
    send(response, 200, { success: true });
  }

  #runProcesses(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    return answerProcesses(request, response, this.#hostOf(query), this.#processes);
  }

  async #files(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    const program = this.#hostOf(query);
    const endUse = this.#options.manager.use(program.id);
    try {
      await answerFiles(request, response, query, program, this.#helpers);
    } finally {
      endUse();
    }
  }

  async #watchFiles(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    requireGet(request);
    const watch = await openFolderWatch(query, this.#hostOf(query), this.#watches);
    try {
      await this.#stream(request, response, "application/x-ndjson", (signal) => watchLines(watch, signal));
    } finally {
      watch.stop();
    }
  }

  /** The program of the sandbox of a request. */
  #hostOf(query: URLSearchParams): Program {
    const program = this.#options.manager.program(query.get("sandboxId") ?? "");
    if (program === undefined) throw sandboxNotFound();
    return program;
  }

  async #processOutput(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    requireGet(request);
    const follow = await openProcessOutput(query, this.#hostOf(query), this.#processes);
    await this.#stream(request, response, "application/octet-stream", follow);
  }

  async #status(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    requireGet(request);
    const { manager, clock } = this.#options;
    if (query.get("watch") !== "true") return send(response, 200, manager.status());
    // Exempt from the limit on streams. Otherwise clients that use it up would make this agent look lost to the operator.
    await this.#sendStream(request, response, "application/x-ndjson", (signal) => streamStatuses(manager, clock, signal));
  }

  async #usage(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requireGet(request);
    send(response, 200, { usages: await this.#options.manager.usages.measure() });
  }

  async #logs(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    requireGet(request);
    const program = this.#hostOf(query);
    const follow = query.get("follow") === "true";
    await this.#stream(request, response, "text/plain; charset=utf-8", (signal) => readLog(program, { follow, signal }));
  }

  async #stream(
    request: IncomingMessage,
    response: ServerResponse,
    type: string,
    read: (signal: AbortSignal) => AsyncIterable<string | Buffer>,
  ): Promise<void> {
    if (this.#clientStreams >= maxStreams) throw new RequestError(429, `too many streams: the limit is ${maxStreams}`);
    this.#clientStreams += 1;
    try {
      await this.#sendStream(request, response, type, read);
    } finally {
      this.#clientStreams -= 1;
    }
  }

  async #sendStream(
    request: IncomingMessage,
    response: ServerResponse,
    type: string,
    read: (signal: AbortSignal) => AsyncIterable<string | Buffer>,
  ): Promise<void> {
    const control = new AbortController();
    this.#streams.add(control);
    request.once("close", () => response.writableFinished || control.abort());
    response.once("close", () => control.abort());
    response.writeHead(200, { "content-type": type });
    response.flushHeaders();
    try {
      for await (const chunk of read(control.signal)) {
        if (!response.write(chunk)) await whenWritable(response);
        if (control.signal.aborted) break;
      }
      // Not if the reader fails: the response would look complete. The caller breaks it off.
      response.end();
    } finally {
      this.#streams.delete(control);
    }
  }
}
