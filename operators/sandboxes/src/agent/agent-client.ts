import { isJsonObject } from "@keelson/api-machinery";
import { type AgentSandbox, agentPaths, type AgentStatus, type CreateAnswer } from "./protocol.ts";

/** Where an agent is. */
export interface AgentAddress {
  readonly url: string;
  readonly token: string;
}

/** Talks to one agent. Every method rejects where the agent cannot be reached. */
export interface AgentClient {
  create(sandbox: AgentSandbox): Promise<CreateAnswer>;
  delete(sandboxId: string): Promise<void>;
  status(): Promise<AgentStatus>;
  /** Statuses as they change, until the connection ends. */
  watch(signal: AbortSignal): AsyncIterable<AgentStatus>;
  logs(sandboxId: string, follow: boolean, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
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
  };
}
