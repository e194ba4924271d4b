import { isIPv4 } from "node:net";
import type { Answer } from "dns-packet";
import { parseRange, addressNumber } from "../pod-network/address-ranges.ts";
import { clusterDomain, type NameIndex, type NameRecord, plainName, recordTtl, reverseName } from "./name-index.ts";

/** Response codes (RFC 1035 section 4.1.1). */
export const responseCodes = { success: 0, servfail: 2, nxdomain: 3, notImplemented: 4, refused: 5 } as const;

/** The networks, in CIDR notation with 16 bits, whose addresses have names in this cluster only. */
export interface OwnNetworks {
  readonly pods: string;
  readonly services: string;
}

/** What the cluster knows of a name. */
export interface Resolution {
  readonly code: number;
  readonly answers: readonly Answer[];
  readonly authorities: readonly Answer[];
  readonly additionals: readonly Answer[];
  /** The name to ask other name servers for: the question's, or the last alias's. Absent: the answer is complete. */
  readonly outside?: string;
}

/** Bounds chains of ExternalName Services, which can form a loop. */
const maxAliases = 8;

const podName = new RegExp(`^(?:(\\d+-\\d+-\\d+-\\d+)\\.)?[a-z0-9-]+\\.pod\\.${clusterDomain.replace(".", "\\.")}$`);

/** Looks up a name. Names outside the cluster, and their reverse names, are left to other name servers. */
export function resolveName(index: NameIndex, networks: OwnNetworks, name: string, type: string): Resolution {
  const answers: Answer[] = [];
  let current = plainName(name);
  for (let aliases = 0; aliases <= maxAliases; aliases++) {
    const records = recordsOf(index, networks, current);
    const zone = zoneOf(networks, current);
    if (records === undefined && zone === undefined) {
      return { code: responseCodes.success, answers, authorities: [], additionals: [], outside: current };
    }
    const soa = startOfAuthority(zone ?? clusterDomain);
    if (records === undefined) return { code: responseCodes.nxdomain, answers, authorities: [soa], additionals: [] };
    const alias = records.find((each) => each.type === "CNAME");
    if (alias?.type === "CNAME" && type !== "CNAME") {
      answers.push(alias);
      current = plainName(alias.data);
      continue;
    }
    const found = records.filter((each) => each.type === type);
    const own = current === zone && type === "SOA" ? [soa] : found;
    const authorities = own.length === 0 ? [soa] : [];
    return { code: responseCodes.success, answers: [...answers, ...own], authorities, additionals: targets(index, found) };
  }
  return { code: responseCodes.servfail, answers: [], authorities: [], additionals: [] };
}

function recordsOf(index: NameIndex, networks: OwnNetworks, name: string): readonly NameRecord[] | undefined {
  const known = index.records(name);
  if (known !== undefined) return known;
  const pod = podName.exec(name);
  if (pod !== null) {
    const address = pod[1]?.replaceAll("-", ".");
    if (address === undefined) return [];
    const range = parseRange(networks.pods);
    const number = isIPv4(address) ? addressNumber(address) : -1;
    if (range === undefined || number < range.first || number > range.last) return undefined;
    return [{ type: "A", name, ttl: recordTtl, data: address }];
  }
  return zoneOf(networks, name) === name ? [] : undefined;
}

/** The zone of a name that only this cluster knows; undefined for other names. */
function zoneOf({ pods, services }: OwnNetworks, name: string): string | undefined {
  const reverse = [pods, services].map((network) => reverseName(network.split(".").slice(0, 2).join(".")));
  return [clusterDomain, ...reverse].find((zone) => name === zone || name.endsWith(`.${zone}`));
}

function startOfAuthority(zone: string): Answer {
  const data = { mname: `ns.dns.${clusterDomain}`, rname: `hostmaster.${clusterDomain}`, serial: 1 };
  const times = { refresh: 7200, retry: 1800, expire: 86400, minimum: recordTtl };
  return { type: "SOA", name: zone, ttl: recordTtl, data: { ...data, ...times } };
}

/** The addresses of the targets of SRV records. */
function targets(index: NameIndex, found: readonly NameRecord[]): readonly Answer[] {
  const names = found.flatMap((each) => (each.type === "SRV" ? [each.data.target] : []));
  return [...new Set(names)].flatMap((name) => index.records(name)?.filter(({ type }) => type === "A") ?? []);
}
