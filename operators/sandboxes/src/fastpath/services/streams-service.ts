import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { Cache } from "@keelson/controller";
import { argumentSizeProblem } from "@keelson/execution";
import {
  type ExecRequest,
  type ExecResponse,
  ExecResponseSchema,
  type ExecStart,
  LogChunkSchema,
  type SandboxStreams,
} from "@keelson/sandbox/protocol";
import type { AgentClient } from "../../fleet/agent-client.ts";
import type { ExecConnection, ExecSettings } from "../../fleet/exec-connection.ts";
import { parseJson } from "../../fleet/agent-answer.ts";
import { execEndOf } from "../../protocol/agent-answers.ts";
import { AgentError, unknownSandbox } from "../../protocol/agent-error.ts";
import { execChannels } from "../../protocol/exec-frames.ts";
import { commandSettings, terminalSize } from "./exec-settings.ts";
import { findSandbox } from "./find-sandbox.ts";
import { sandboxInfo } from "../sandbox-info.ts";

/** Dependencies of the service. */
export interface StreamsOptions {
  readonly cache: Cache;
  readonly agentClient: (namespace: string, name: string) => AgentClient | undefined;
  /** The sandbox of a FAST create whose object may not be written yet. */
  readonly pendingOf: (namespace: string, name: string) => { readonly agent: string; readonly sandboxId: string } | undefined;
}

/** The service `keelson.sandboxes.v1.SandboxStreams`: connects callers with the agent of a sandbox. */
export function createStreamsService(options: StreamsOptions): ServiceImpl<typeof SandboxStreams> {
  return {
    async *logs({ sandboxName, namespace, follow }, { signal }) {
      const { agent, sandboxId, absence } = findAgent({ sandboxName, namespace }, options);
      try {
        for await (const data of await agent.logs(sandboxId, follow, signal)) yield create(LogChunkSchema, { data });
      } catch (error) {
        if (signal.aborted) return;
        throw agentError(error, absence);
      }
    },

    async *exec(requests, { signal }) {
      const incoming = requests[Symbol.asyncIterator]();
      const first = await incoming.next();
      if (first.done || first.value.request.case !== "start")
        throw new ConnectError("start: must be the first message", Code.InvalidArgument);
      const connection = await connect(first.value.request.value, options, signal);
      // Forwarded independently: the responses end the call, not the input.
      void passInput(incoming, connection).catch(() => connection.close());
      try {
        yield* responsesOf(connection, signal);
      } finally {
        connection.close();
      }
    },
  };
}

/** The agent that runs a sandbox, and the sandbox's id there. `absence`: why the agent may not have it. */
export function findAgent(
  { sandboxName, namespace }: { readonly sandboxName: string; readonly namespace: string },
  { cache, agentClient, pendingOf }: StreamsOptions,
): { readonly agent: AgentClient; readonly sandboxId: string; readonly absence: string } {
  const key = { namespace: namespace || "default", name: sandboxName };
  const sandbox = findSandbox({ sandboxName, namespace }, cache);
  const pending = sandbox === undefined ? pendingOf(key.namespace, key.name) : undefined;
  if (sandbox === undefined && pending === undefined)
    throw new ConnectError(`sandbox ${key.namespace}/${key.name} not found`, Code.NotFound);
  const { sandboxId, agentPod, phase, message } =
    sandbox === undefined
      ? { sandboxId: pending?.sandboxId ?? "", agentPod: pending?.agent ?? "", phase: "Creating", message: "" }
      : sandboxInfo(sandbox);
  if (sandboxId === "")
    throw new ConnectError(`sandbox ${key.name} is ${phase} and not assigned to an agent`, Code.FailedPrecondition);
  const agent = agentClient(key.namespace, agentPod);
  if (agent === undefined) throw new ConnectError(`agent ${agentPod} has not reported`, Code.Unavailable);
  const reason = message === "" ? "" : `: ${message}`;
  return { agent, sandboxId, absence: `sandbox ${key.namespace}/${key.name} is not running; it is ${phase}${reason}` };
}

async function connect(start: ExecStart, options: StreamsOptions, signal: AbortSignal): Promise<ExecConnection> {
  const { agent, sandboxId, absence } = findAgent(start, options);
  const settings = settingsOf(start);
  const size = terminalSize(start.terminal);
  try {
    return await agent.exec(sandboxId, start.command, size, signal, settings);
  } catch (error) {
    throw agentError(error, absence);
  }
}

/** The output of a command, then its exit status. **Errors**: Unavailable if the connection ends before. */
async function* responsesOf(connection: ExecConnection, signal: AbortSignal): AsyncGenerator<ExecResponse> {
  for await (const { channel, data } of connection.frames) {
    if (channel === execChannels.stdout) yield response({ case: "stdout", value: data });
    else if (channel === execChannels.stderr) yield response({ case: "stderr", value: data });
    else if (channel === execChannels.exit) {
      const { exitCode, message } = execEndOf(parseJson(data.toString("utf8")));
      if (message !== undefined) yield response({ case: "stderr", value: Buffer.from(`${message}\n`) });
      yield response({ case: "exitCode", value: exitCode });
      return;
    }
  }
  if (!signal.aborted) throw new ConnectError("lost the connection to the agent while the command ran", Code.Unavailable);
}

const response = (value: ExecResponse["response"]): ExecResponse => create(ExecResponseSchema, { response: value });

function settingsOf(start: ExecStart): ExecSettings {
  const { command, env } = start;
  if (command.length === 0 || command[0] === "") throw new ConnectError("command: is required", Code.InvalidArgument);
  const problem = argumentSizeProblem(command, env);
  if (problem !== undefined) throw new ConnectError(problem, Code.InvalidArgument);
  return commandSettings(start);
}

async function passInput(requests: AsyncIterator<ExecRequest>, connection: ExecConnection): Promise<void> {
  for (let next = await requests.next(); !next.done; next = await requests.next()) {
    const { request } = next.value;
    if (request.case === "stdin") await connection.send(execChannels.stdin, request.value);
    else if (request.case === "closeStdin") await connection.send(execChannels.closeStdin, Buffer.alloc(0));
    else if (request.case === "resize") {
      const { columns, rows } = request.value;
      await connection.send(execChannels.resize, Buffer.from(JSON.stringify({ columns, rows })));
    }
  }
}

const codesByStatus: Readonly<Record<number, Code>> = {
  400: Code.InvalidArgument,
  403: Code.PermissionDenied,
  404: Code.NotFound,
  409: Code.FailedPrecondition,
  413: Code.ResourceExhausted,
  429: Code.ResourceExhausted,
  501: Code.Unimplemented,
  507: Code.ResourceExhausted,
};

/** The error of a call to an agent as that of the caller. `absence` explains that the agent does not have the sandbox. */
export function agentError(error: unknown, absence?: string): ConnectError {
  if (absence !== undefined && error instanceof AgentError && error.status === 404 && error.message === unknownSandbox)
    return new ConnectError(absence, Code.FailedPrecondition);
  const message = error instanceof Error ? error.message : String(error);
  return new ConnectError(
    message,
    error instanceof AgentError ? (codesByStatus[error.status ?? 0] ?? Code.Unavailable) : Code.Unavailable,
  );
}
