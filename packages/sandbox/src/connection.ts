import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { FastPathService } from "./generated/fastpath/v1/fastpath_pb.ts";
import { SandboxFiles } from "./generated/keelson/sandboxes/v1/files_pb.ts";
import { SandboxLifecycle } from "./generated/keelson/sandboxes/v1/lifecycle_pb.ts";
import { SandboxPorts } from "./generated/keelson/sandboxes/v1/ports_pb.ts";
import { SandboxProcesses } from "./generated/keelson/sandboxes/v1/processes_pb.ts";
import { SandboxStreams } from "./generated/keelson/sandboxes/v1/streams_pb.ts";
import { SandboxVolumes } from "./generated/keelson/sandboxes/v1/volumes_pb.ts";
import { type ClusterCredentials, findClusterCredentials } from "./cluster-credentials.ts";
import { SandboxError } from "./sandbox-error.ts";

/** Where the sandboxes' gRPC server is and how calls are authenticated. */
export interface ConnectionOptions {
  /** `HOST:PORT` or a URL, for TLS with `https://`. Default: `KEELSON_SANDBOX_ENDPOINT`, else `127.0.0.1:9090`. */
  readonly endpoint?: string;
  /**
   * The bearer token. Default: `KEELSON_SANDBOX_TOKEN`, else the content of the file that `KEELSON_SANDBOX_TOKEN_FILE` names, else with TLS
   * the credentials of the Pod's service account or of the kubeconfig's current context (which requires `kubectl`).
   */
  readonly token?: string;
  /** Certificates (PEM) of the authorities to trust. Default: the file that `KEELSON_SANDBOX_CA_FILE` names, else those of Node.js. */
  readonly certificateAuthority?: string;
  /** Namespace of the sandboxes. Default: `default`. */
  readonly namespace?: string;
  /**
   * Replaces the connection, `endpoint` and `token` included. In a browser: the transport of `@connectrpc/connect-web`, with an
   * interceptor that sets the `authorization` header, to a proxy of the same origin.
   */
  readonly transport?: Transport;
}

/** Clients of the server's services. */
export interface Connection {
  readonly namespace: string;
  readonly sandboxes: Client<typeof FastPathService>;
  readonly lifecycle: Client<typeof SandboxLifecycle>;
  readonly processes: Client<typeof SandboxProcesses>;
  readonly files: Client<typeof SandboxFiles>;
  readonly ports: Client<typeof SandboxPorts>;
  readonly streams: Client<typeof SandboxStreams>;
  readonly volumes: Client<typeof SandboxVolumes>;
}

/** The server limits its connections, so unused ones are closed. */
const idleConnectionTimeoutMs = 10_000;

/** Detects a server that has disappeared, even while a call waits for its output. */
const pingIntervalMs = 30_000;

/** Creates a connection. The first call opens it. */
export async function openConnection(options: ConnectionOptions): Promise<Connection> {
  const transport = options.transport ?? (await createTransport(options));
  return {
    namespace: options.namespace ?? "default",
    sandboxes: createClient(FastPathService, transport),
    lifecycle: createClient(SandboxLifecycle, transport),
    processes: createClient(SandboxProcesses, transport),
    files: createClient(SandboxFiles, transport),
    ports: createClient(SandboxPorts, transport),
    streams: createClient(SandboxStreams, transport),
    volumes: createClient(SandboxVolumes, transport),
  };
}

// Node.js modules are loaded here only: with its own transport, the package runs in browsers.
async function createTransport(options: ConnectionOptions): Promise<Transport> {
  const { env } = process;
  const address = options.endpoint ?? env.KEELSON_SANDBOX_ENDPOINT ?? "127.0.0.1:9090";
  const baseUrl = /^https?:/.test(address) ? address : `http://${address}`;
  if (!URL.canParse(baseUrl))
    throw new SandboxError("InvalidArgument", `endpoint: ${address} must be of the form 127.0.0.1:9090`);
  const { token, ...certificate } = await findCredentials(options, baseUrl.startsWith("https:"));
  const authorize: Interceptor = (next) => async (request) => {
    const current = await token();
    if (current !== undefined) request.header.set("authorization", `Bearer ${parseToken(current)}`);
    return next(request);
  };
  const file = env.KEELSON_SANDBOX_CA_FILE;
  const ca = options.certificateAuthority ?? (file === undefined ? undefined : await read("KEELSON_SANDBOX_CA_FILE", file));
  const [{ createGrpcTransport }, { GrpcSessions }] = await Promise.all([
    import("@connectrpc/connect-node"),
    import("./grpc-sessions.ts"),
  ]);
  const tls = { ...certificate, ...(ca !== undefined && { ca }) };
  const sessionManager = new GrpcSessions(baseUrl, { idleConnectionTimeoutMs, pingIntervalMs }, tls);
  return createGrpcTransport({ baseUrl, interceptors: [authorize], sessionManager });
}

/** Credentials of the cluster are sent over TLS only. */
async function findCredentials(options: ConnectionOptions, isSecure: boolean): Promise<ClusterCredentials> {
  const { env } = process;
  const file = env.KEELSON_SANDBOX_TOKEN_FILE;
  const text =
    options.token ??
    env.KEELSON_SANDBOX_TOKEN ??
    (file === undefined ? undefined : await read("KEELSON_SANDBOX_TOKEN_FILE", file));
  if (text !== undefined) {
    const token = parseToken(text);
    return { token: () => Promise.resolve(token) };
  }
  if (!isSecure)
    throw new SandboxError("Unauthenticated", "token: is required, or set KEELSON_SANDBOX_TOKEN or KEELSON_SANDBOX_TOKEN_FILE");
  const [{ readFile }, { runProgram }] = await Promise.all([import("node:fs/promises"), import("./run-program.ts")]);
  return findClusterCredentials({
    env,
    readFile: (path) => readFile(path, "utf8"),
    run: (program, args, variables) => runProgram(program, args, { env: { ...env, ...variables } }),
    now: Date.now,
  });
}

/** The token without surrounding white space. An invalid header value would be part of the error of every call. */
function parseToken(text: string): string {
  const token = text.trim();
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new SandboxError("InvalidArgument", "token: must be printable ASCII characters without spaces");
  return token;
}

async function read(variable: string, file: string): Promise<string> {
  const { readFile } = await import("node:fs/promises");
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new SandboxError("Unauthenticated", `${variable}: could not read ${file}`, { cause: error });
  }
}
