import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { GrpcSessions } from "@keelson/sandbox/grpc";
import {
  FastPathService,
  SandboxFiles,
  SandboxLifecycle,
  SandboxPorts,
  SandboxProcesses,
  SandboxStreams,
  SandboxUsage,
  SandboxVolumes,
} from "@keelson/sandbox/protocol";

/** Clients of the fast path's services. */
export interface FastPathClient {
  readonly fastPath: Client<typeof FastPathService>;
  readonly streams: Client<typeof SandboxStreams>;
  readonly lifecycle: Client<typeof SandboxLifecycle>;
  readonly files: Client<typeof SandboxFiles>;
  readonly processes: Client<typeof SandboxProcesses>;
  readonly ports: Client<typeof SandboxPorts>;
  readonly usage: Client<typeof SandboxUsage>;
  readonly volumes: Client<typeof SandboxVolumes>;
}

/** Where the fast path is, and how calls authenticate. */
export interface FastPathClientOptions {
  /** `http://127.0.0.1:9090`, or `https:` for TLS. */
  readonly baseUrl: string;
  /** The bearer token of a call: always the same, or requested before each call. Default: none. */
  readonly token?: string | (() => Promise<string | undefined>);
  /** For TLS, in PEM: trusted authorities (default: those of Node.js), and a client certificate with its key. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string };
}

/** Creates clients of the fast path. Connects on the first call. */
export function createFastPathClient({ baseUrl, token, tls = {} }: FastPathClientOptions): FastPathClient {
  const authorize: Interceptor = (next) => async (request) => {
    const current = typeof token === "function" ? await token() : token;
    if (current !== undefined) request.header.set("authorization", `Bearer ${current}`);
    return next(request);
  };
  const sessionManager = new GrpcSessions(baseUrl, {}, tls);
  const transport = createGrpcTransport({ baseUrl, interceptors: [authorize], sessionManager });
  return {
    fastPath: createClient(FastPathService, transport),
    streams: createClient(SandboxStreams, transport),
    lifecycle: createClient(SandboxLifecycle, transport),
    files: createClient(SandboxFiles, transport),
    processes: createClient(SandboxProcesses, transport),
    ports: createClient(SandboxPorts, transport),
    usage: createClient(SandboxUsage, transport),
    volumes: createClient(SandboxVolumes, transport),
  };
}
