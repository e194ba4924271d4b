import type { Reply } from "../redis/resp-client.ts";

/** The servers of a Group, as its agent knows them. */
export interface Topology {
  /** Name of the primary in the Sentinel protocol: the name of the Group. */
  readonly name: string;
  readonly primary: string | undefined;
  readonly replicas: readonly string[];
  /** Addresses of the other agents. */
  readonly peers: readonly string[];
  readonly port: number;
  readonly sentinelPort: number;
  /** Whether the primary holds the lease of a majority, so that the agents replace it if it fails. */
  readonly hasQuorum: boolean;
}

/** An error reply. */
export class SentinelError extends Error {
  override readonly name = "SentinelError";
}

/** Answers a command of the Sentinel protocol, without connection state such as authentication and subscriptions. */
export function answerSentinel(words: readonly string[], topology: Topology): Reply {
  const [command = "", ...args] = words;
  switch (command.toUpperCase()) {
    case "PING":
      return args[0] ?? "PONG";
    case "CLIENT":
    case "READONLY":
      return "OK";
    case "ROLE":
      return ["sentinel", [topology.name]];
    case "INFO":
      return `# Server\r\nredis_mode:sentinel\r\n# Sentinel\r\nsentinel_masters:1\r\nmaster0:name=${topology.name},status=ok,address=${topology.primary ?? ""}:${topology.port},slaves=${topology.replicas.length},sentinels=${topology.peers.length + 1}\r\n`;
    case "SENTINEL":
      return answerSubcommand(args, topology);
    default:
      throw new SentinelError(`ERR unknown command '${command.slice(0, 40)}'`);
  }
}

function answerSubcommand([subcommand = "", name]: readonly string[], topology: Topology): Reply {
  const known = (): Topology & { readonly primary: string } => {
    if (name !== topology.name || topology.primary === undefined) throw new SentinelError("ERR No such master with that name");
    return { ...topology, primary: topology.primary };
  };
  switch (subcommand.toLowerCase()) {
    case "get-master-addr-by-name":
      return name === topology.name && topology.primary !== undefined ? [topology.primary, String(topology.port)] : null;
    case "masters":
      return topology.primary === undefined ? [] : [primaryFields(topology, topology.primary)];
    case "master":
      return primaryFields(topology, known().primary);
    case "replicas":
    case "slaves":
      return known().replicas.map((host) => replicaFields(host, topology, known().primary));
    case "sentinels":
      return known().peers.map((host) => addressFields(host, topology.sentinelPort, "sentinel"));
    case "myid":
      return topology.name;
    case "ckquorum":
      if (!known().hasQuorum)
        throw new SentinelError("NOQUORUM the primary does not hold the lease of a majority of the agents");
      return `OK ${known().peers.length + 1} usable Sentinels. Quorum and failover authorization can be reached`;
    default:
      throw new SentinelError(`ERR unknown subcommand '${subcommand.slice(0, 40)}'`);
  }
}

function addressFields(host: string, port: number, flags: string): readonly string[] {
  return ["name", `${host}:${port}`, "ip", host, "port", String(port), "runid", "", "flags", flags];
}

function primaryFields({ name, port, replicas, peers }: Topology, primary: string): readonly string[] {
  const [, , ...address] = addressFields(primary, port, "master");
  const quorum = Math.floor((peers.length + 1) / 2) + 1;
  const counts = ["num-slaves", String(replicas.length), "num-other-sentinels", String(peers.length), "quorum", String(quorum)];
  return ["name", name, ...address, ...counts];
}

function replicaFields(host: string, { port }: Topology, primary: string): readonly string[] {
  const link = ["master-link-status", "ok", "master-host", primary, "master-port", String(port), "slave-priority", "100"];
  return [...addressFields(host, port, "slave"), ...link];
}

/** Name of the channel on which a new primary is published. */
export const switchChannel = "+switch-master";

/** Text of a message on {@link switchChannel}. */
export function switchMessage({ name, port }: Topology, from: string, to: string): string {
  return `${name} ${from} ${port} ${to} ${port}`;
}
