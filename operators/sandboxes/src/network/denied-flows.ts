import { isJsonObject } from "@keelson/api-machinery";

/** Flows that a sandbox's network policy rejected. */
export interface DeniedFlows {
  /** Number of rejected connections and name lookups. */
  readonly count: number;
  /** Some of their destinations: `ADDRESS:PORT/PROTOCOL` or names. At most 64 addresses and 16 names. */
  readonly destinations: readonly string[];
}

/** Parses the output of `nft --json list table` of a sandbox's table. */
export function parseDeniedFlows(text: string): DeniedFlows {
  const value: unknown = JSON.parse(text);
  const entries = isJsonObject(value) && Array.isArray(value.nftables) ? value.nftables.filter(isJsonObject) : [];
  let count = 0;
  const destinations: string[] = [];
  for (const { counter, set } of entries) {
    if (isJsonObject(counter) && counter.name === "denied") count = Number(counter.packets);
    if (!isJsonObject(set) || set.name !== "denied_to" || !Array.isArray(set.elem)) continue;
    for (const each of set.elem) {
      const element = isJsonObject(each) && isJsonObject(each.elem) ? each.elem.val : each;
      const parts = isJsonObject(element) && Array.isArray(element.concat) ? element.concat.map(String) : [];
      const [address, protocol, port] = parts;
      if (port !== undefined) destinations.push(`${address}:${port}/${protocol}`);
    }
  }
  return { count, destinations: destinations.sort() };
}
