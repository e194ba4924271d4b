import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import {
  FastPathService,
  SandboxFiles,
  SandboxLifecycle,
  SandboxPorts,
  SandboxProcesses,
  SandboxStreams,
} from "@keelson/sandbox/protocol";

/** Clients of the fast path's services. */
export interface FastPathClient {
  readonly fastPath: Client<typeof FastPathService>;
  readonly streams: Client<typeof SandboxStreams>;
  readonly lifecycle: Client<typeof SandboxLifecycle>;
  readonly files: Client<typeof SandboxFiles>;
  readonly processes: Client<typeof SandboxProcesses>;
  readonly ports: Client<typeof SandboxPorts>;
}

/** Creates clients of the fast path at `baseUrl` (`http://127.0.0.1:9090`). Connects on the first call. */
export function createFastPathClient({ baseUrl, token }: { readonly baseUrl: string; readonly token: string }): FastPathClient {
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  const transport = createGrpcTransport({ baseUrl, interceptors: [authorize] });
  return {
    fastPath: createClient(FastPathService, transport),
    streams: createClient(SandboxStreams, transport),
    lifecycle: createClient(SandboxLifecycle, transport),
    files: createClient(SandboxFiles, transport),
    processes: createClient(SandboxProcesses, transport),
    ports: createClient(SandboxPorts, transport),
  };
}
