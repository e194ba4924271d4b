import { isIP } from "node:net";
import {
  choiceFlag,
  durationFlag,
  type FlagValues,
  invalidFlag,
  pairsFlag,
  portFlag,
  switchFlag,
  textFlag,
  UsageError,
} from "@keelson/operator/flags";
import { agentDrivers } from "../agent/agent-drivers.ts";
import type { AgentIsolation } from "../agent/run-agent.ts";

/** Flags of the fast path's server. */
export const fastPathFlags = {
  bindAddress: textFlag({
    name: "fastpath-bind-address",
    value: "ADDRESS",
    description: "listen address of the sandboxes' gRPC server",
    default: "127.0.0.1",
  }),
  port: portFlag({
    name: "fastpath-port",
    description: "port of the gRPC server; 0 picks a free one",
    default: "9090",
    endpoint: "fastpath",
  }),
  metricsPort: portFlag({
    name: "fastpath-metrics-port",
    description:
      "port of the gRPC server's metrics, on its address and with its token (default: disabled; the original uses 9091)",
    endpoint: "fastpath-metrics",
  }),
  tls: switchFlag({
    name: "fastpath-tls",
    description:
      "also serve TLS on a loopback address, for tokens and client certificates of the cluster; always on beyond loopback",
  }),
  tlsCertFile: textFlag({
    name: "fastpath-tls-cert-file",
    value: "FILE",
    description:
      "certificate of the gRPC server, reloaded when it changes (default: signed by fastpath-ca.crt in the data directory)",
  }),
  tlsKeyFile: textFlag({
    name: "fastpath-tls-private-key-file",
    value: "FILE",
    description: "private key of --fastpath-tls-cert-file",
  }),
  allowToken: switchFlag({
    name: "fastpath-allow-token",
    description: "accept the token from the token file beyond loopback, even without TLS",
  }),
  insecureLoopback: switchFlag({
    name: "fastpath-insecure-loopback",
    description:
      "accept every call without credentials on the loopback address, for the original's command and clients: each program and user of this machine then controls all sandboxes",
  }),
  mode: choiceFlag({
    name: "fastpath-consistency-mode",
    value: "MODE",
    description: "default consistency mode of creates: fast (agent first) or strong (API first)",
    choices: ["fast", "strong"],
    default: "fast",
  }),
  proxyPort: portFlag({
    name: "sandbox-proxy-port",
    description:
      "port of the HTTP proxy to exposed ports of sandboxes, at PORT-ID.HOST; 0 picks a free one (default: disabled)",
    endpoint: "sandbox-proxy",
  }),
  proxyBindAddress: textFlag({
    name: "sandbox-proxy-bind-address",
    value: "ADDRESS",
    description: "listen address of the HTTP proxy; beyond loopback it requires TLS, see --fastpath-tls",
    default: "127.0.0.1",
  }),
  proxyUrl: textFlag({
    name: "sandbox-proxy-url",
    value: "URL",
    description:
      "URL at which clients reach the HTTP proxy, whose subdomains must resolve to it (default: sandbox.localhost and the port)",
  }),
  orphanTimeout: durationFlag({
    name: "fastpath-orphan-timeout",
    description: "minimum age of a sandbox without an object before it is deleted",
    default: "10s",
    bareUnit: "s",
  }),
  image: pairsFlag({
    name: "sandbox-image",
    value: "NAME=FILE",
    description: "unpack an OCI archive at start-up under this name (repeatable)",
  }),
  driver: choiceFlag({
    name: "sandbox-driver",
    value: "NAME",
    description: "isolation of sandboxes: bubblewrap, containerd, gvisor (containerd with runsc), or process (none)",
    choices: agentDrivers,
    default: "bubblewrap",
  }),
  containerdSocket: textFlag({
    name: "sandbox-containerd-socket",
    value: "PATH",
    description: "containerd's socket on the agents' machines (default: /run/containerd/containerd.sock)",
  }),
} as const;

/** How the fast path authenticates its callers. */
export interface FastPathAccess {
  /** Whether the token of the token file grants every call. */
  readonly acceptsToken: boolean;
  /** Whether calls without credentials are accepted. */
  readonly isOpen: boolean;
  /** Whether TLS is served; with the files of a certificate, or with one of its own. */
  readonly tls: { readonly files: CertificateFiles | undefined } | undefined;
}

/** Files of a certificate and its key. */
export interface CertificateFiles {
  readonly certificate: string;
  readonly key: string;
}

/**
 * How the flags authenticate callers. Beyond loopback, callers authenticate as users of the cluster, over TLS.
 *
 * **Errors**: `UsageError`.
 */
export function readAccess(flags: FlagValues): FastPathAccess {
  const [certificate, key] = [fastPathFlags.tlsCertFile.read(flags), fastPathFlags.tlsKeyFile.read(flags)];
  if ((certificate === undefined) !== (key === undefined))
    throw new UsageError(`--${fastPathFlags.tlsCertFile.name} and --${fastPathFlags.tlsKeyFile.name}: must be set together`);
  const files = certificate === undefined || key === undefined ? undefined : { certificate, key };
  const address = fastPathFlags.bindAddress.read(flags);
  const isLocal = isLoopback(address);
  const isOpen = fastPathFlags.insecureLoopback.read(flags);
  if (isOpen && !isLocal)
    throw invalidFlag(
      fastPathFlags.bindAddress,
      address,
      `must be a loopback address with --${fastPathFlags.insecureLoopback.name}`,
    );
  return {
    isOpen,
    acceptsToken: isLocal || fastPathFlags.allowToken.read(flags),
    tls: isLocal && files === undefined && !fastPathFlags.tls.read(flags) ? undefined : { files },
  };
}

const isLoopback = (address: string): boolean => /^(127\.\d+\.\d+\.\d+|::1|localhost)$/.test(address);

/** The HTTP proxy that the flags select. */
export interface ProxySettings {
  readonly port: number;
  readonly bindAddress: string;
  /** Default: `sandbox.localhost` with the port. */
  readonly publicUrl: URL | undefined;
}

/** Host of the proxy by default: RFC 6761 reserves names below `localhost` for loopback. */
export const defaultProxyDomain = "sandbox.localhost";

/** The proxy that the flags select; undefined: none. **Errors**: `UsageError`. */
export function readProxy(flags: FlagValues): ProxySettings | undefined {
  const port = fastPathFlags.proxyPort.read(flags);
  const [bindAddress, text] = [fastPathFlags.proxyBindAddress.read(flags), fastPathFlags.proxyUrl.read(flags)];
  const publicUrl = text === undefined ? undefined : readProxyUrl(text);
  if (port === undefined) {
    if (text !== undefined) throw invalidFlag(fastPathFlags.proxyUrl, text, `requires --${fastPathFlags.proxyPort.name}`);
    return undefined;
  }
  if (!isLoopback(bindAddress) && readAccess(flags).tls === undefined)
    throw invalidFlag(
      fastPathFlags.proxyBindAddress,
      bindAddress,
      `requires TLS beyond loopback: set --${fastPathFlags.tls.name}`,
    );
  return { port, bindAddress, publicUrl };
}

function readProxyUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBase = url !== undefined && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`;
  if (!isBase || isIP(url.hostname) !== 0 || url.hostname.startsWith("["))
    throw invalidFlag(fastPathFlags.proxyUrl, text, "must be of the form https://sandboxes.example.com");
  return url;
}

/** The isolation that the flags select. **Errors**: `UsageError`. */
export function readIsolation(flags: FlagValues): AgentIsolation {
  const driver = fastPathFlags.driver.read(flags);
  const containerdSocket = fastPathFlags.containerdSocket.read(flags);
  if (containerdSocket === undefined) return { driver };
  if (driver !== "containerd" && driver !== "gvisor") {
    throw invalidFlag(fastPathFlags.containerdSocket, containerdSocket, "requires --sandbox-driver containerd or gvisor");
  }
  if (!containerdSocket.startsWith("/")) {
    throw invalidFlag(fastPathFlags.containerdSocket, containerdSocket, "must be an absolute path");
  }
  return { driver, containerdSocket };
}
