import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  type ConnectPortRequest,
  ConnectPortResponseSchema,
  type ConnectPortStart,
  CreatePortUrlResponseSchema,
  type SandboxPorts,
} from "@keelson/sandbox/protocol";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { OnChange } from "@keelson/controller";
import type { Sandbox } from "../../api/sandbox.ts";
import type { ExecConnection } from "../../fleet/exec-connection.ts";
import { AgentError } from "../../protocol/agent-error.ts";
import { execChannels } from "../../protocol/exec-frames.ts";
import { maxSignatureMs, type SignedPort } from "../../proxy/url-signer.ts";
import { sandboxInfo } from "../sandbox-info.ts";
import { waitForSandbox } from "../wait-for-sandbox.ts";
import { findSandbox } from "./find-sandbox.ts";
import { agentError, findAgent, type StreamsOptions } from "./streams-service.ts";

/** Dependencies of the service. */
export interface PortsOptions extends StreamsOptions {
  readonly clock: Clock;
  readonly onChange: OnChange;
  /** Resolves when the object of a sandbox is written, if it is to be. */
  readonly whenWritten: (namespace: string, name: string) => Promise<void>;
  /** A signed URL of the HTTP proxy. Default: the server has none. */
  readonly createUrl?: ((target: SignedPort, expiresAtMs: number) => Promise<string>) | undefined;
}

const defaultUrlMs = 60 * 60 * 1000;
const minUrlMs = 1000;

/** How long a call waits for a sandbox that is starting. */
const startTimeoutMs = 10_000;

/**
 * The service `keelson.sandboxes.v1.SandboxPorts`: connects callers with the exposed ports of sandboxes, through the authenticated connection
 * to their agent.
 */
export function createPortsService(options: PortsOptions): ServiceImpl<typeof SandboxPorts> {
  return {
    async createUrl(request, { signal }) {
      const { createUrl, clock } = options;
      if (createUrl === undefined)
        throw new ConnectError("the server has no HTTP proxy; start it with --sandbox-proxy-port", Code.FailedPrecondition);
      const { port } = request;
      const expiresInMs = Number(request.expiresInMs) || defaultUrlMs;
      if (expiresInMs < minUrlMs || expiresInMs > maxSignatureMs)
        throw new ConnectError(`expires_in_ms: must be ${minUrlMs} to ${maxSignatureMs}`, Code.InvalidArgument);
      await whenRunning(request, options, signal);
      const { sandboxId } = sandboxInfo(requireExposed(request, options));
      const expiresAtMs = clock.now() + expiresInMs;
      const url = await createUrl({ sandboxId, port }, expiresAtMs);
      return create(CreatePortUrlResponseSchema, { url, expiresAtMs: BigInt(Math.floor(expiresAtMs)) });
    },

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
        if (!signal.aborted) throw new ConnectError("the connection to the port was lost", Code.Unavailable);
      } finally {
        connection.close();
      }
    },
  };
}

async function openConnection(start: ConnectPortStart, options: StreamsOptions, signal: AbortSignal): Promise<ExecConnection> {
  requireExposed(start, options);
  const { agent, sandboxId, absence } = findAgent(start, options);
  try {
    return await agent.connectPort(sandboxId, start.port, signal);
  } catch (error) {
    if (error instanceof AgentError && error.status === 404 && /upgrade not supported/.test(error.message))
      throw new ConnectError(
        "the agent is of an earlier version, which cannot forward ports; delete its Pod once its sandboxes have ended",
        Code.FailedPrecondition,
      );
    throw agentError(error, absence);
  }
}

/** Waits for a sandbox that is being created, such as by a FAST create that has just been answered. */
async function whenRunning(
  { sandboxName, namespace }: SandboxTarget,
  options: PortsOptions,
  signal: AbortSignal,
): Promise<void> {
  const key = { namespace: namespace || "default", name: sandboxName };
  const found = findSandbox({ sandboxName, namespace }, options.cache);
  if (found === undefined && options.pendingOf(key.namespace, key.name) === undefined) return;
  await options.whenWritten(key.namespace, key.name);
  const name = found?.metadata.name ?? key.name;
  const isStarting = (phase = "Pending"): boolean => phase === "Pending" || phase === "Creating";
  await waitForSandbox({ ...key, name }, (sandbox) => sandbox !== undefined && !isStarting(sandbox.status?.phase), {
    ...{ ...options, timeoutMs: startTimeoutMs, signal },
  });
}

/** The sandbox and port of a request. */
type SandboxTarget = Pick<ConnectPortStart, "sandboxName" | "namespace" | "port">;

/** **Errors**: `NotFound`, and `FailedPrecondition` unless the sandbox runs and exposes the port. */
function requireExposed({ sandboxName, namespace, port }: SandboxTarget, { cache }: StreamsOptions): DeepReadonly<Sandbox> {
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
  return sandbox;
}

async function passData(requests: AsyncIterator<ConnectPortRequest>, connection: ExecConnection): Promise<void> {
  for (let next = await requests.next(); !next.done; next = await requests.next()) {
    const { request } = next.value;
    if (request.case !== "data") throw new ConnectError("data: must follow the first message", Code.InvalidArgument);
    await connection.send(execChannels.stdin, request.value);
  }
  await connection.send(execChannels.closeStdin, Buffer.alloc(0));
}
