import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodSpec } from "@keelson/api-machinery/kinds";
import { clusterDomain } from "./name-index.ts";

/** The settings of a resolver, as in /etc/resolv.conf. */
export interface ResolverSettings {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  /** Such as `ndots:5`. */
  readonly options: readonly string[];
}

/** The limits of resolvers, as the kubelet observes them. */
const [maxServers, maxSearches, maxSearchLength] = [3, 32, 2048];

/** Parses /etc/resolv.conf. */
export function parseResolvConf(text: string): ResolverSettings {
  const found = { servers: [] as string[], searches: [] as string[], options: [] as string[] };
  for (const line of text.split("\n")) {
    const [keyword, ...words] = line
      .replace(/[#;].*$/, "")
      .trim()
      .split(/\s+/);
    if (keyword === "nameserver") found.servers.push(...words.slice(0, 1));
    // The last one is in effect.
    if (keyword === "search" || keyword === "domain") found.searches = words;
    if (keyword === "options") found.options.push(...words);
  }
  return found;
}

/**
 * The /etc/resolv.conf of a Pod with a network namespace, by its `dnsPolicy` and `dnsConfig`. `server` is the address of cluster DNS.
 * It also takes the place of name servers on the machine's loopback interface, which Pods cannot reach.
 */
export function resolvConf(
  namespace: string,
  { dnsPolicy = "ClusterFirst", dnsConfig }: DeepReadonly<Pick<PodSpec, "dnsPolicy" | "dnsConfig">>,
  server: string,
  machine: ResolverSettings,
): string {
  const base = baseSettings(namespace, dnsPolicy, server, machine);
  const servers = unique([...base.servers, ...(dnsConfig?.nameservers ?? [])]).slice(0, maxServers);
  const searches = fittingSearches(unique([...base.searches, ...(dnsConfig?.searches ?? [])]));
  const options = new Map(base.options.map((option) => [option.split(":")[0] ?? "", option]));
  for (const { name = "", value } of dnsConfig?.options ?? []) {
    options.set(name, value === undefined || value === "" ? name : `${name}:${value}`);
  }
  // A line break in an option must not begin another setting.
  const words = [...options.values()].filter((option) => /^\S+$/.test(option));
  return [
    ...servers.map((each) => `nameserver ${each}\n`),
    searches.length === 0 ? "" : `search ${searches.join(" ")}\n`,
    words.length === 0 ? "" : `options ${words.join(" ")}\n`,
  ].join("");
}

function baseSettings(namespace: string, policy: string, server: string, machine: ResolverSettings): ResolverSettings {
  if (policy === "None") return { servers: [], searches: [], options: [] };
  if (policy === "Default") {
    const servers = machine.servers.map((each) => (/^(127\.|::1$)/.test(each) ? server : each));
    return { ...machine, servers: servers.length === 0 ? [server] : servers };
  }
  const own = [`${namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain];
  return { servers: [server], searches: [...own, ...machine.searches], options: ["ndots:5"] };
}

function fittingSearches(searches: readonly string[]): readonly string[] {
  let length = 0;
  return searches.slice(0, maxSearches).filter((each) => {
    length += each.length + 1;
    return length - 1 <= maxSearchLength;
  });
}

const unique = (values: readonly string[]): readonly string[] => [...new Set(values)];
