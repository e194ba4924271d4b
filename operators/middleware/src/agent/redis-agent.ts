import type { AgentView, EngineDefinition, EngineOptions } from "@keelson/middleware-agent";
import { RedisEngine } from "./redis/redis-engine.ts";
import { defaultTlsPort } from "./redis/redis-tls.ts";
import type { Topology } from "./sentinel/sentinel-commands.ts";
import { SentinelServer } from "./sentinel/sentinel-server.ts";

const defaultSentinelPort = 26_379;

/** Redis and Valkey, with the Sentinel protocol for clients that discover the primary. */
export const redisAgent: EngineDefinition = {
  name: "redis",
  program: "redis-server",
  port: 6_379,
  flags: [
    {
      name: "sentinel-port",
      value: "PORT",
      description: "port of the Sentinel protocol",
      default: String(defaultSentinelPort),
    },
    {
      name: "tls-port",
      value: "PORT",
      description: "port of the program with TLS",
      default: String(defaultTlsPort),
    },
  ],
  create: (options) => new RedisEngine(options),
  serve(options, view, engine) {
    const { host, clock, password, tls } = options;
    const accepts = (text: string): boolean => engine.credentials?.accepts("default", text) ?? text === password;
    const port = Number(options.flags["sentinel-port"] ?? defaultSentinelPort);
    const topology = (isSecure: boolean): Promise<Topology> => topologyOf(options, view, port, isSecure);
    return SentinelServer.start({ host, clock, port, accepts, topology, tls });
  },
};

/** `isSecure`: servers are listed with their ports for TLS. */
async function topologyOf(
  { host, port, podName, flags }: EngineOptions,
  view: AgentView,
  sentinelPort: number,
  isSecure: boolean,
): Promise<Topology> {
  const hosts = Object.values(view.members());
  const primary = await view.primaryHost();
  return {
    name: podName.replace(/-\d+$/, ""),
    primary,
    replicas: hosts.filter((each) => each !== primary),
    peers: hosts.filter((each) => each !== host),
    ...{ port: isSecure ? Number(flags["tls-port"] ?? defaultTlsPort) : port, sentinelPort },
    hasQuorum: view.hasQuorum(),
  };
}
