import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import type { Duplex } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import type { TerminalSize } from "@keelson/execution";
import type { ProcessOperation, ProcessResult } from "../processes/process-operations.ts";
import type { FileOperation, FileResult } from "../files/file-operations.ts";
import type { FolderReport } from "../files/folder-changes.ts";
import type { WatchTarget } from "../files/folder-watches.ts";
import { agentStatusOf, createAnswerOf, processResultOf, usagesOf } from "../protocol/agent-answers.ts";
import { AgentError } from "../protocol/agent-error.ts";
import type { ExecConnection, ExecSettings } from "./exec-connection.ts";
import { type ExecFrame, execProtocol, readFrames, sendFrame } from "../protocol/exec-frames.ts";
import {
  type AgentSandbox,
  agentPaths,
  type AgentStatus,
  type CreateAnswer,
  type ExpiryChange,
  fileResultHeader,
  type SandboxUsage,
  type VolumeChange,
} from "../protocol/protocol.ts";
import { answerFailure, userFailure } from "./agent-failure.ts";
import { fileAnswerOf, parseJson, readBytes, readFolderReports, readLogBytes, readStatuses, readText } from "./agent-answer.ts";
import { clientTlsOptions } from "../protocol/tls-psk.ts";
import { type AgentBudget, createPause, ReportBudget, type StatusOptions } from "./report-budget.ts";

/** How to reach an agent. */
export interface AgentAddress {
  /** `https://HOST:PORT`. */
  readonly url: string;
  /** The agent's key. It authenticates both ends of the TLS handshake and is never sent. */
  readonly token: string;
  /** Maximum number of its sandboxes, which bounds its statuses. Default: that of every pool. */
  readonly capacity?: number;
}

/** Client of one agent. Every method rejects with an {@link AgentError}, or a connection error if the agent is unreachable. */
export interface AgentClient {
  create(sandbox: AgentSandbox): Promise<CreateAnswer>;
  delete(sandboxId: string): Promise<void>;
  /** Sets the expiry of a sandbox: milliseconds since the epoch; null: never. */
  expire(sandboxId: string, expiresAtMs: number | null): Promise<void>;
  /** Freezes a sandbox. */
  pause(sandboxId: string): Promise<void>;
  /** Lets a paused sandbox continue with this expiry. */
  resume(sandboxId: string, expiresAtMs: number | null): Promise<void>;
  /** Creates, resizes or deletes a volume. */
  changeVolume(change: VolumeChange): Promise<void>;
  status(): Promise<AgentStatus>;
  /** What its running sandboxes use. */
  usage(): Promise<readonly SandboxUsage[]>;
  /** Streams statuses as they change, until the connection ends. */
  watch(signal: AbortSignal): AsyncIterable<AgentStatus>;
  /** Runs an operation on the files of a sandbox. */
  files(sandboxId: string, operation: FileOperation): Promise<FileResult>;
  /** Watches a directory of a sandbox. Resolves when the watch is active. The reports reject if the connection is lost. */
  watchFiles(sandboxId: string, target: WatchTarget, signal: AbortSignal): Promise<AsyncIterable<FolderReport>>;
  /** Runs an operation on the processes of a sandbox. */
  processes(sandboxId: string, operation: ProcessOperation): Promise<ProcessResult>;
  /** Follows the output of a process, see `agentPaths.processOutput`. */
  processOutput(sandboxId: string, processId: string, offset: number, signal: AbortSignal): Promise<AsyncIterable<ExecFrame>>;
  logs(sandboxId: string, follow: boolean, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** Runs a command in a sandbox, on a terminal if a size is given. Kills it when `signal` aborts. */
  exec(
    sandboxId: string,
    command: readonly string[],
    size: TerminalSize | undefined,
    signal: AbortSignal,
    settings?: ExecSettings,
  ): Promise<ExecConnection>;
  /** Connects to an exposed port of a sandbox, see `agentPaths.connect`. Closes when `signal` aborts. */
  connectPort(sandboxId: string, port: number, signal: AbortSignal): Promise<ExecConnection>;
}

const [responseTimeoutMs, maxAnswerBytes, maxErrorBytes] = [10_000, 16 << 20, 64 * 1024];

/** Creates an {@link AgentClient}. Connects on the first call and reuses connections. `budget` is that of all agents. Default: its own. */
export function createAgentClient(address: AgentAddress, clock: Clock, budget = new ReportBudget(clock)): AgentClient {
  return new HttpsAgentClient(address, clock, budget.forAgent());
}

/** A whole answer. */
interface Exchange {
  readonly status: number;
  readonly content: Buffer;
  header(name: string): string | undefined;
}

interface RequestOptions {
  readonly method?: "GET" | "POST";
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** {@link AgentClient} over HTTPS, authenticated by the agent's key. */
class HttpsAgentClient implements AgentClient {
  readonly #url: string;
  readonly #clock: Clock;
  readonly #statuses: StatusOptions;
  readonly #connections: Agent;

  constructor({ url, token, capacity }: AgentAddress, clock: Clock, budget: AgentBudget) {
    this.#url = url;
    this.#statuses = { budget, clock, capacity };
    this.#clock = clock;
    this.#connections = new Agent({ keepAlive: true, ...clientTlsOptions(token) });
  }

  async create(sandbox: AgentSandbox): Promise<CreateAnswer> {
    const { status, text } = await this.#post(agentPaths.create, { sandbox });
    // The agent answers an invalid sandbox with 400: it is final, and nothing was started.
    if (![200, 400, 409, 500].includes(status)) throw answerFailure(this.#url, status, text);
    return createAnswerOf(parseJson(text));
  }

  delete = (sandboxId: string): Promise<void> => this.#postOk(agentPaths.delete, { sandboxId });

  async expire(sandboxId: string, expiresAtMs: number | null): Promise<void> {
    await this.#postOk(agentPaths.expire, { sandboxId, expiresAtMs } satisfies ExpiryChange);
  }

  pause = (sandboxId: string): Promise<void> => this.#postOk(agentPaths.pause, { sandboxId });

  async resume(sandboxId: string, expiresAtMs: number | null): Promise<void> {
    await this.#postOk(agentPaths.resume, { sandboxId, expiresAtMs } satisfies ExpiryChange);
  }

  changeVolume = (change: VolumeChange): Promise<void> => this.#postOk(agentPaths.volumes, change);

  status = async (): Promise<AgentStatus> => agentStatusOf(parseJson(await this.#get(agentPaths.status)));

  usage = async (): Promise<readonly SandboxUsage[]> => usagesOf(parseJson(await this.#get(agentPaths.usage)));

  async *watch(signal: AbortSignal): AsyncGenerator<AgentStatus> {
    const response = await this.#stream(`${agentPaths.status}?watch=true`, signal);
    yield* readStatuses(response, this.#statuses, signal);
  }

  async files(sandboxId: string, operation: FileOperation): Promise<FileResult> {
    const { data, ...rest } = { data: undefined, ...operation };
    const query = new URLSearchParams({ sandboxId, operation: JSON.stringify(rest) });
    const { status, content, header } = await this.#exchange(`${agentPaths.files}?${query.toString()}`, {
      method: "POST",
      body: data ?? new Uint8Array(),
    });
    if (status !== 200) throw answerFailure(this.#url, status, content.toString("utf8"));
    return fileAnswerOf(content, header(fileResultHeader), createPause(this.#clock));
  }

  async watchFiles(
    sandboxId: string,
    { path, isRecursive }: WatchTarget,
    signal: AbortSignal,
  ): Promise<AsyncIterable<FolderReport>> {
    const query = new URLSearchParams({ sandboxId, path, recursive: String(isRecursive) });
    return readFolderReports(await this.#stream(`${agentPaths.watchFiles}?${query.toString()}`, signal));
  }

  async processes(sandboxId: string, operation: ProcessOperation): Promise<ProcessResult> {
    const query = new URLSearchParams({ sandboxId });
    const hasUser = operation.kind === "start" && operation.user !== undefined;
    const path = hasUser ? agentPaths.processesAs : agentPaths.processes;
    const { status, text } = await this.#post(`${path}?${query.toString()}`, operation);
    if (status !== 200) throw (hasUser ? userFailure : answerFailure)(this.#url, status, text);
    return processResultOf(parseJson(text));
  }

  async processOutput(
    sandboxId: string,
    processId: string,
    offset: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<ExecFrame>> {
    const query = new URLSearchParams({ sandboxId, processId, offset: String(offset) });
    return readFrames(await this.#stream(`${agentPaths.processOutput}?${query.toString()}`, signal));
  }

  async logs(sandboxId: string, follow: boolean, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const query = new URLSearchParams({ sandboxId, follow: String(follow) });
    return readLogBytes(await this.#stream(`${agentPaths.logs}?${query.toString()}`, signal));
  }

  async exec(
    sandboxId: string,
    command: readonly string[],
    size: TerminalSize | undefined,
    signal: AbortSignal,
    { env = {}, workingDir, user }: ExecSettings = {},
  ): Promise<ExecConnection> {
    const query = new URLSearchParams({ sandboxId, ...(user !== undefined && { user }) });
    for (const [name, value] of Object.entries(env)) query.append("env", `${name}=${value}`);
    if (workingDir !== undefined) query.set("workingDir", workingDir);
    for (const argument of command) query.append("command", argument);
    if (size !== undefined) {
      query.set("columns", String(size.columns));
      query.set("rows", String(size.rows));
    }
    if (user === undefined) return this.#upgrade(`${agentPaths.exec}?${query.toString()}`, signal);
    return this.#upgrade(`${agentPaths.execAs}?${query.toString()}`, signal, userFailure);
  }

  connectPort(sandboxId: string, port: number, signal: AbortSignal): Promise<ExecConnection> {
    const query = new URLSearchParams({ sandboxId, port: String(port) });
    return this.#upgrade(`${agentPaths.connect}?${query.toString()}`, signal);
  }

  async #upgrade(path: string, signal: AbortSignal, failure = answerFailure): Promise<ExecConnection> {
    const headers = { connection: "Upgrade", upgrade: execProtocol };
    const sent = this.#send(path, { headers, signal });
    const [response, socket, head] = await new Promise<[IncomingMessage, Duplex?, Buffer?]>((resolve, reject) => {
      sent.once("upgrade", (...answer) => resolve(answer));
      sent.once("response", (answer) => resolve([answer]));
      sent.on("error", reject);
    });
    if (socket === undefined) throw failure(this.#url, response.statusCode ?? 500, await readText(response, maxErrorBytes));
    const abort = (): void => void socket.destroy();
    signal.addEventListener("abort", abort, { once: true });
    socket.once("close", () => signal.removeEventListener("abort", abort));
    socket.on("error", () => socket.destroy());
    return {
      frames: readFrames(socket as AsyncIterable<Buffer>, head),
      send: (channel, data) => sendFrame(socket, channel, data),
      close: abort,
    };
  }

  async #get(path: string): Promise<string> {
    const { status, content } = await this.#exchange(path, {});
    if (status !== 200) throw answerFailure(this.#url, status, content.toString("utf8"));
    return content.toString("utf8");
  }

  async #post(path: string, value: unknown): Promise<{ readonly status: number; readonly text: string }> {
    const { status, content } = await this.#exchange(path, { method: "POST", body: JSON.stringify(value) });
    return { status, text: content.toString("utf8") };
  }

  async #postOk(path: string, value: unknown): Promise<void> {
    const { status, text } = await this.#post(path, value);
    if (status !== 200) throw answerFailure(this.#url, status, text);
  }

  /** Sends a request and reads the whole answer, within {@link responseTimeoutMs}. */
  async #exchange(path: string, options: RequestOptions): Promise<Exchange> {
    const timeout = new AbortController();
    const timer = this.#clock.setTimer(responseTimeoutMs, () => timeout.abort(), { background: true });
    try {
      const response = await this.#respond(path, { ...options, signal: timeout.signal });
      const header = (name: string): string | undefined => response.headers[name]?.toString();
      return { status: response.statusCode ?? 500, content: await readBytes(response, maxAnswerBytes), header };
    } catch (error) {
      if (!timeout.signal.aborted) throw error;
      throw new AgentError("Unreachable", `the agent at ${this.#url} did not respond within ${responseTimeoutMs} ms`, {
        cause: error,
      });
    } finally {
      timer.cancel();
    }
  }

  async #stream(path: string, signal: AbortSignal): Promise<IncomingMessage> {
    // A request adds a listener to its signal until it ends, and many streams can share a signal. Its own signal adds none.
    const response = await this.#respond(path, { signal: AbortSignal.any([signal]) });
    if (response.statusCode !== 200)
      throw answerFailure(this.#url, response.statusCode ?? 500, await readText(response, maxErrorBytes));
    return response;
  }

  /** Sends a request, once more if an idle connection was closed by the agent at that moment. All requests are idempotent. */
  async #respond(path: string, options: RequestOptions): Promise<IncomingMessage> {
    for (let attempt = 0; ; attempt++) {
      const sent = this.#send(path, options);
      try {
        const [response] = (await once(sent, "response")) as [IncomingMessage];
        return response;
      } catch (error) {
        if (attempt > 0 || !sent.reusedSocket || options.signal?.aborted) throw error;
      }
    }
  }

  #send(path: string, { method = "GET", body, headers, signal }: RequestOptions): ClientRequest {
    const sent = request(`${this.#url}${path}`, {
      method,
      agent: this.#connections,
      headers: {
        ...(body !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
        ...headers,
      },
      ...(signal !== undefined && { signal }),
    });
    sent.end(body);
    return sent;
  }
}
