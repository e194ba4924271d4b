import { isIPv4 } from "node:net";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import type { SrvAnswer, StringAnswer, TxtAnswer } from "dns-packet";
import { slicesByService } from "../service-proxy/service-routes.ts";

/** A record of the cluster's domain. Names are in lower case, without a final dot. */
export type NameRecord = StringAnswer | SrvAnswer | TxtAnswer;

/** What the names of the cluster are derived from. */
export interface NameSources {
  readonly services: Iterable<DeepReadonly<ServiceObject>>;
  readonly slices: Iterable<DeepReadonly<EndpointSliceObject>>;
}

/** The domain of the cluster. */
export const clusterDomain = "cluster.local";

/** Seconds for which clients may keep an answer. */
export const recordTtl = 5;

/** The records of Services by name, as Kubernetes' DNS specification 1.1.0 defines them. */
export class NameIndex {
  readonly #records = new Map<string, NameRecord[]>();
  /** Names without records that have names below them. */
  readonly #parents = new Set<string>();

  constructor({ services, slices }: NameSources) {
    this.#add({ type: "TXT", name: `dns-version.${clusterDomain}`, data: "1.1.0" });
    this.#parents.add(`svc.${clusterDomain}`);
    this.#parents.add(`pod.${clusterDomain}`);
    const byService = slicesByService(slices);
    for (const service of services) {
      const { name = "", namespace = "" } = service.metadata;
      this.#addService(`${name}.${namespace}.svc.${clusterDomain}`, service, byService.get(`${namespace}/${name}`) ?? []);
    }
  }

  /** The records of a name: empty if only names below it exist; undefined if the name does not exist. */
  records(name: string): readonly NameRecord[] | undefined {
    return this.#records.get(name) ?? (this.#parents.has(name) ? [] : undefined);
  }

  #add(record: NameRecord): void {
    const known = this.#records.get(record.name);
    const isKnown = (each: NameRecord): boolean =>
      each.type === record.type && JSON.stringify(each.data) === JSON.stringify(record.data);
    if (known === undefined) this.#records.set(record.name, [{ ...record, ttl: recordTtl }]);
    else if (!known.some(isKnown)) known.push({ ...record, ttl: recordTtl });
    for (let parent = parentOf(record.name); parent !== "" && !this.#parents.has(parent); parent = parentOf(parent)) {
      this.#parents.add(parent);
    }
  }

  #addService(base: string, { spec }: DeepReadonly<ServiceObject>, slices: readonly DeepReadonly<EndpointSliceObject>[]): void {
    if (spec?.type === "ExternalName") {
      const target = plainName(spec.externalName ?? "");
      if (target !== "") this.#add({ type: "CNAME", name: base, data: target });
      return;
    }
    const address = spec?.clusterIP ?? "";
    if (address === "None") {
      for (const slice of slices) this.#addEndpoints(base, slice, spec?.publishNotReadyAddresses === true);
    } else if (isIPv4(address)) {
      this.#addAddress(base, address);
      for (const { name, port, protocol = "TCP" } of spec?.ports ?? []) this.#addPort(base, { name, protocol, port }, base);
    }
  }

  /** Adds the endpoints of a Service without an address. */
  #addEndpoints(base: string, slice: DeepReadonly<EndpointSliceObject>, showsAll: boolean): void {
    if (slice.addressType !== "IPv4") return;
    for (const { addresses, conditions, hostname = "" } of slice.endpoints ?? []) {
      const [address = ""] = addresses;
      if (!isIPv4(address) || !(showsAll || conditions?.ready !== false)) continue;
      const host = `${hostname === "" ? address.replaceAll(".", "-") : hostname.toLowerCase()}.${base}`;
      this.#add({ type: "A", name: base, data: address });
      this.#addAddress(host, address);
      for (const { name, port, protocol = "TCP" } of slice.ports ?? []) this.#addPort(base, { name, protocol, port }, host);
    }
  }

  #addAddress(name: string, address: string): void {
    this.#add({ type: "A", name, data: address });
    this.#add({ type: "PTR", name: reverseName(address), data: name });
  }

  /** Adds a port, if it has a name. */
  #addPort(base: string, port: ShownPort, target: string): void {
    if (port.name === undefined || port.name === "" || port.port === undefined) return;
    const name = `_${port.name}._${port.protocol}.${base}`.toLowerCase();
    this.#add({ type: "SRV", name, data: { priority: 0, weight: 100, port: port.port, target } });
  }
}

interface ShownPort {
  readonly name: string | undefined;
  readonly protocol: string;
  readonly port: number | undefined;
}

/** A name in lower case, without a final dot. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

/** The name of an IPv4 address, or of the leading octets of a network, in in-addr.arpa. */
export function reverseName(octets: string): string {
  return `${octets.split(".").reverse().join(".")}.in-addr.arpa`;
}

function parentOf(name: string): string {
  const dot = name.indexOf(".");
  return dot === -1 ? "" : name.slice(dot + 1);
}
