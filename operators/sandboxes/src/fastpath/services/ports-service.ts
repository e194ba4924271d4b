import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  type ConnectPortRequest,
  ConnectPortResponseSchema,
  type ConnectPortStart,
  type SandboxPorts,
} from "@keelson/sandbox/protocol";
import type { ExecConnection } from "../../fleet/exec-connection.ts";
import { AgentError } from "../../protocol/agent-error.ts";
import { execChannels } from "../../protocol/exec-frames.ts";
import { findSandbox } from "./find-sandbox.ts";
import { agentError, findAgent, type StreamsOptions } from "./streams-service.ts";

/**
 * The service `keelson.sandboxes.v1.SandboxPorts`: connects callers with the exposed ports of sandboxes, through the authenticated connection
 * to their agent.
 */
export function createPortsService(options: StreamsOptions): ServiceImpl<typeof SandboxPorts> {
  return {
    async *connect(requests, { signal }) {
      const incoming = requests[Symbol.asyncIterator]();
      const first = await incoming.next();
      if (first.done || first.value.request.case !== "start")
        throw new ConnectError("start: must be the first message", Code.InvalidArgument);
      const connection = await openConnection(first.value.request.value, options, signal);
      // The response ends the call, not the input.
      void passData(incoming, connection).catch(() => connection.close());
      try {
        for await (const { channel, data } of connection.frames) {
          if (channel === execChannels.exit) return;
          if (channel === execChannels.stdout) yield create(ConnectPortResponseSchema, { data });
        }
        if (!signal.aborted) throw new ConnectError("the connection to the port broke", Code.Unavailable);
      } finally {
        connection.close();
      }
    },
  };
}

async function openConnection(start: ConnectPortStart, options: StreamsOptions, signal: AbortSignal): Promise<ExecConnection> {
  requireExposed(start, options);
  const { agent, sandboxId } = findAgent(start, options);
  try {
    return await agent.connectPort(sandboxId, start.port, signal);
  } catch (error) {
    if (error instanceof AgentError && error.status === 404 && /upgrade not supported/.test(error.message))
      throw new ConnectError(
        "the agent is of an earlier version, which cannot forward ports; delete its Pod once its sandboxes have ended",
        Code.FailedPrecondition,
      );
    throw agentError(error);
  }
}

/** **Errors**: `NotFound`, and `FailedPrecondition` unless the sandbox runs and exposes the port. */
function requireExposed({ sandboxName, namespace, port }: ConnectPortStart, { cache }: StreamsOptions): void {
  const sandbox = findSandbox({ sandboxName, namespace }, cache);
  if (sandbox === undefined)
    throw new ConnectError(`sandbox ${namespace || "default"}/${sandboxName} not found`, Code.NotFound);
  const { spec, status } = sandbox;
  if (!(spec.exposedPorts ?? []).includes(port)) {
    const exposed = (spec.exposedPorts ?? []).join(", ");
    throw new ConnectError(
      `port: ${port} is not exposed; ${exposed === "" ? "the sandbox exposes no port" : `exposed: ${exposed}`}`,
      Code.FailedPrecondition,
    );
  }
  if (status?.phase !== "Running")
    throw new ConnectError(`sandbox ${sandboxName} is ${status?.phase ?? "Pending"}`, Code.FailedPrecondition);
}

async function passData(requests: AsyncIterator<ConnectPortRequest>, connection: ExecConnection): Promise<void> {
  for (let next = await requests.next(); !next.done; next = await requests.next()) {
    const { request } = next.value;
    if (request.case !== "data") throw new ConnectError("data: must follow the first message", Code.InvalidArgument);
    await connection.send(execChannels.stdin, request.value);
  }
  await connection.send(execChannels.closeStdin, Buffer.alloc(0));
}
