import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import type { Duplex } from "node:stream";
import { isJsonObject } from "@keelson/api-machinery";
import type { TerminalSize } from "@keelson/execution";
import { type ExecFrame, execProtocol, readFrames, sendFrame } from "../protocol/exec-frames.ts";
import { type AgentSandbox, agentPaths, type AgentStatus, type CreateAnswer, type ExpiryChange } from "../protocol/protocol.ts";

/** Where an agent is. */
export interface AgentAddress {
  readonly url: string;
  readonly token: string;
}

/** Talks to one agent. Every method rejects where the agent cannot be reached. */
export interface AgentClient {
  create(sandbox: AgentSandbox): Promise<CreateAnswer>;
  delete(sandboxId: string): Promise<void>;
  /** Sets when a sandbox expires: milliseconds since the epoch; null: never. */
  expire(sandboxId: string, expiresAtMs: number | null): Promise<void>;
  status(): Promise<AgentStatus>;
  /** Statuses as they change, until the connection ends. */
  watch(signal: AbortSignal): AsyncIterable<AgentStatus>;
  logs(sandboxId: string, follow: boolean, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** Runs a command in a sandbox, with a terminal where a size is given. Ends it when `signal` fires. */
  exec(
    sandboxId: string,
    command: readonly string[],
    size: TerminalSize | undefined,
    signal: AbortSignal,
  ): Promise<ExecConnection>;
}

/** A connection to a command; the last frame says how it ended. */
export interface ExecConnection {
  readonly frames: AsyncIterable<ExecFrame>;
  send(channel: number, data: Uint8Array): Promise<void>;
  close(): void;
}

/** What an agent answers that is no success: its words, and the HTTP status. */
export class AgentRefusal extends Error {
  override readonly name = "AgentRefusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** How long an agent has for an answer. */
const answerMs = 10_000;
const mostLineBytes = 8 << 20;

/** Makes an {@link AgentClient}. */
export function createAgentClient({ url, token }: AgentAddress): AgentClient {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const post = (path: string, value: unknown): Promise<Response> =>
    fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(value), signal: AbortSignal.timeout(answerMs) });
  const failure = async (response: Response): Promise<Error> =>
    new Error(`the agent at ${url} answers ${response.status}: ${(await response.text()).slice(0, 500)}`);
  return {
    async create(sandbox) {
      const response = await post(agentPaths.create, { sandbox });
      if (response.status !== 200 && response.status !== 409 && response.status !== 500) throw await failure(response);
      const value: unknown = await response.json();
      if (!isJsonObject(value) || typeof value.success !== "boolean")
        throw new Error(`the agent at ${url} answers something else`);
      return value as unknown as CreateAnswer;
    },
    async delete(sandboxId) {
      const response = await post(agentPaths.delete, { sandboxId });
      if (!response.ok) throw await failure(response);
      await response.body?.cancel();
    },
    async expire(sandboxId, expiresAtMs) {
      const response = await post(agentPaths.expire, { sandboxId, expiresAtMs } satisfies ExpiryChange);
      if (!response.ok) throw await failure(response);
      await response.body?.cancel();
    },
    async status() {
      const response = await fetch(`${url}${agentPaths.status}`, { headers, signal: AbortSignal.timeout(answerMs) });
      if (!response.ok) throw await failure(response);
      return (await response.json()) as AgentStatus;
    },
    async *watch(signal) {
      const response = await fetch(`${url}${agentPaths.status}?watch=true`, { headers, signal });
      if (!response.ok || response.body === null) throw await failure(response);
      const decoder = new TextDecoder();
      let rest = "";
      for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
        const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        if (rest.length > mostLineBytes) throw new Error(`the agent at ${url} sends a status above ${mostLineBytes} bytes`);
        for (const line of lines) if (line !== "") yield JSON.parse(line) as AgentStatus;
      }
    },
    async logs(sandboxId, follow, signal) {
      const query = new URLSearchParams({ sandboxId, follow: String(follow) });
      const response = await fetch(`${url}${agentPaths.logs}?${query.toString()}`, { headers, signal });
      if (!response.ok || response.body === null) throw await failure(response);
      return response.body as AsyncIterable<Uint8Array>;
    },
    async exec(sandboxId, command, size, signal) {
      const query = new URLSearchParams({ sandboxId });
      for (const word of command) query.append("command", word);
      if (size !== undefined) {
        query.set("columns", String(size.columns));
        query.set("rows", String(size.rows));
      }
      const asking = request(`${url}${agentPaths.exec}?${query.toString()}`, {
        headers: { ...headers, connection: "Upgrade", upgrade: execProtocol },
        signal,
      });
      asking.end();
      const [response, socket, head] = await new Promise<[IncomingMessage, Duplex?, Buffer?]>((resolve, reject) => {
        asking.once("upgrade", (...answer) => resolve(answer));
        asking.once("response", (answer) => resolve([answer]));
        asking.once("error", reject);
      });
      if (socket === undefined) throw new AgentRefusal(response.statusCode ?? 500, await refusal(response));
      const abort = (): void => void socket.destroy();
      signal.addEventListener("abort", abort, { once: true });
      socket.once("close", () => signal.removeEventListener("abort", abort));
      socket.on("error", () => socket.destroy());
      return {
        frames: readFrames(socket as AsyncIterable<Buffer>, head),
        send: (channel, data) => sendFrame(socket, channel, data),
        close: abort,
      };
    },
  };
}

const mostRefusalBytes = 64 * 1024;

/** The message in an agent's answer that is no success. */
async function refusal(response: IncomingMessage): Promise<string> {
  let text = "";
  response.setEncoding("utf8").on("data", (chunk: string) => {
    if (text.length < mostRefusalBytes) text += chunk;
  });
  await once(response, "end");
  const value: unknown = JSON.parse(text);
  return isJsonObject(value) && typeof value.message === "string" ? value.message : text;
}
