import { join } from "node:path";
import { ClusterIdentities } from "@keelson/controller/access";
import type { ServerContext } from "@keelson/operator";
import { defaultProxyDomain, type ProxySettings } from "../fastpath/fastpath-flags.ts";
import type { TlsMaterial } from "../fastpath/tls/serving-tls.ts";
import type { AgentClient } from "../fleet/agent-client.ts";
import { PortStream } from "./port-stream.ts";
import { ProxyAccess } from "./proxy-access.ts";
import { ProxyError } from "./proxy-error.ts";
import { portUrl } from "./proxy-url.ts";
import { type SandboxProxy, startSandboxProxy } from "./sandbox-proxy.ts";
import { type SignedPort, UrlSigner } from "./url-signer.ts";

/** File below the operator's data directory with the keys that sign URLs. */
const keysFile = (dataDir: string): string => join(dataDir, "proxy-keys.json");

/** Options of {@link startProxy}. */
export interface StartProxyOptions {
  readonly settings: ProxySettings;
  readonly context: ServerContext;
  readonly tls: TlsMaterial | undefined;
  /** The token that grants every call; undefined: none. */
  readonly staticToken: string | undefined;
  readonly agentClient: (namespace: string, name: string) => AgentClient | undefined;
}

/** The HTTP proxy of an operator. */
export interface RunningProxy {
  readonly proxy: SandboxProxy;
  /** A URL that grants access to a port until it expires. */
  readonly createUrl: (target: SignedPort, expiresAtMs: number) => Promise<string>;
}

/** The host whose subdomains lead to the proxy. */
export const proxyDomain = ({ publicUrl }: ProxySettings): string => publicUrl?.hostname ?? defaultProxyDomain;

/** Starts the proxy with the certificate of the fast path, and with signing keys in the operator's data directory. */
export async function startProxy({
  settings,
  context,
  tls,
  staticToken,
  agentClient,
}: StartProxyOptions): Promise<RunningProxy> {
  const { client, cache, clock, log, dataDir } = context;
  const { bindAddress, port, publicUrl } = settings;
  const isSecure = publicUrl === undefined ? tls !== undefined : publicUrl.protocol === "https:";
  const signer = await UrlSigner.open(keysFile(dataDir), clock);
  // Reviews of its own: callers of the proxy do not use up those of the fast path.
  const identities = tls === undefined ? undefined : new ClusterIdentities({ client, clock });
  const access = new ProxyAccess({ domain: proxyDomain(settings), isSecure, signer, cache, staticToken, identities });
  const proxy = await startSandboxProxy({
    ...{ bindAddress, port, isSecure, tls, access, clock, log },
    connect: async ({ sandbox, sandboxId, port: target }, signal) => {
      const agent = agentClient(sandbox.metadata.namespace ?? "", sandbox.status?.assignedPod ?? "");
      if (agent === undefined) throw new ProxyError(503, "the sandbox's agent has not reported");
      return new PortStream(await agent.connectPort(sandboxId, target, signal));
    },
  });
  const base = publicUrl ?? new URL(`${isSecure ? "https" : "http"}://${defaultProxyDomain}:${new URL(proxy.url).port}`);
  return {
    proxy,
    createUrl: async (target, expiresAtMs) => portUrl(base, target, await signer.sign(target, expiresAtMs)),
  };
}
