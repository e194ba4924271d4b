import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { Pod } from "@keelson/api-machinery/kinds";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import {
  type ConnectPortRequest,
  ConnectPortResponseSchema,
  type ConnectPortStart,
  type SandboxPorts,
} from "@keelson/sandbox/protocol";
import { parseAgentPod } from "../../fleet/agent-pod.ts";
import { whenWritable } from "../../protocol/when-writable.ts";
import { findSandbox } from "./find-sandbox.ts";
import { agentError, findAgent, type StreamsOptions } from "./streams-service.ts";

/** How long a connection to an agent may take to open. */
const connectTimeoutMs = 10_000;

/** How long a call waits for the agent to listen on a port, in steps. Another process may hold it for a moment. */
const listenTimeoutMs = 2_000;
const listenPollMs = 100;

/** Dependencies of the service. */
export interface PortsOptions extends StreamsOptions {
  readonly clock: Clock;
}

/** The service `keelson.sandboxes.v1.SandboxPorts`: connects callers with the exposed ports of sandboxes. */
export function createPortsService(options: PortsOptions): ServiceImpl<typeof SandboxPorts> {
  return {
    async *connect(requests, { signal }) {
      const incoming = requests[Symbol.asyncIterator]();
      const first = await incoming.next();
      if (first.done || first.value.request.case !== "start")
        throw new ConnectError("start: must be the first message", Code.InvalidArgument);
      const start = first.value.request.value;
      const address = addressOf(start, options);
      await requireOpen(start, options, signal);
      const socket = await openSocket(address, signal);
      // The response ends the call, not the input.
      void passData(incoming, socket).catch(() => socket.destroy());
      try {
        for await (const data of socket as AsyncIterable<Buffer>) yield create(ConnectPortResponseSchema, { data });
      } catch (error) {
        if (!signal.aborted) throw new ConnectError(`the connection broke: ${messageOf(error)}`, Code.Unavailable);
      } finally {
        socket.destroy();
      }
    },
  };
}

/** Where the agent of a sandbox relays an exposed port. The address is that of the agent's Pod, not one that the Sandbox's status names. */
function addressOf(
  { sandboxName, namespace, port }: ConnectPortStart,
  { cache }: PortsOptions,
): { readonly host: string; readonly port: number } {
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
  const pod = cache.get(Pod, { namespace: sandbox.metadata.namespace ?? "", name: status.assignedPod ?? "" });
  const url = pod === undefined ? undefined : parseAgentPod(pod)?.url;
  if (url === undefined) throw new ConnectError(`agent ${status.assignedPod} has no address`, Code.Unavailable);
  // The host name of a URL has an IPv6 address in brackets.
  return { host: new URL(url).hostname.replace(/^\[(.*)\]$/, "$1"), port };
}

/**
 * Requires that the agent currently listens on the port for this sandbox: otherwise a program of the agent's host or another sandbox may
 * answer. **Errors**: `Unavailable`.
 */
async function requireOpen(start: ConnectPortStart, options: PortsOptions, signal: AbortSignal): Promise<void> {
  const { clock } = options;
  const { agent, sandboxId } = findAgent(start, options);
  const deadline = clock.monotonic() + listenTimeoutMs;
  for (;;) {
    const { sandboxStatuses } = await agent.status().catch((error: unknown) => {
      throw agentError(error);
    });
    if (sandboxStatuses.find((each) => each.sandboxId === sandboxId)?.openPorts?.includes(start.port)) return;
    if (clock.monotonic() >= deadline)
      throw new ConnectError(
        `port: the agent does not listen on ${start.port} for sandbox ${start.sandboxName}; another process may use the port`,
        Code.Unavailable,
      );
    await sleep(clock, listenPollMs, signal);
  }
}

async function openSocket(address: { readonly host: string; readonly port: number }, signal: AbortSignal): Promise<Socket> {
  const socket = connect({ ...address, allowHalfOpen: true });
  const abort = (): void => void socket.destroy();
  signal.addEventListener("abort", abort, { once: true });
  socket.once("close", () => signal.removeEventListener("abort", abort));
  socket.setTimeout(connectTimeoutMs, abort);
  try {
    await Promise.race([
      once(socket, "connect"),
      once(socket, "close").then(() => Promise.reject(new Error(`no connection within ${connectTimeoutMs} ms`))),
    ]);
  } catch (error) {
    socket.destroy();
    throw new ConnectError(`could not connect to port ${address.port} of the agent: ${messageOf(error)}`, Code.Unavailable);
  }
  socket.setTimeout(0);
  return socket;
}

async function passData(requests: AsyncIterator<ConnectPortRequest>, socket: Socket): Promise<void> {
  for (let next = await requests.next(); !next.done; next = await requests.next()) {
    const { request } = next.value;
    if (request.case !== "data") throw new ConnectError("data: must follow the first message", Code.InvalidArgument);
    if (!socket.write(request.value)) await whenWritable(socket);
    if (socket.destroyed) return;
  }
  socket.end();
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
