import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Cache } from "@keelson/controller";
import { parseAgentPod } from "../fleet/agent-pod.ts";
import { findSandbox } from "./find-sandbox.ts";
import {
  type ConnectPortRequest,
  ConnectPortResponseSchema,
  type ConnectPortStart,
  type SandboxPorts,
} from "./generated/keelson/sandboxes/v1/ports_pb.ts";

/** How long a connection to an agent may take to open. */
const connectTimeoutMs = 10_000;

/** The service `keelson.sandboxes.v1.SandboxPorts`: connects callers with the exposed ports of sandboxes. */
export function createPortsService(cache: Cache): ServiceImpl<typeof SandboxPorts> {
  return {
    async *connect(requests, { signal }) {
      const incoming = requests[Symbol.asyncIterator]();
      const first = await incoming.next();
      if (first.done || first.value.request.case !== "start")
        throw new ConnectError("start: must be the first message", Code.InvalidArgument);
      const socket = await openSocket(addressOf(first.value.request.value, cache), signal);
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
  cache: Cache,
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
  return { host: new URL(url).hostname, port };
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
    if (!socket.write(request.value)) await Promise.race([once(socket, "drain"), once(socket, "close")]);
    if (socket.destroyed) return;
  }
  socket.end();
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
