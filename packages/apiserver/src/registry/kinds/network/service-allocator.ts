import type { ServiceObject } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Store } from "../../../storage/store.ts";
import type { ReceivedObject } from "../../received.ts";

/** Allocates cluster IPs and node ports. An allocation belongs to the uid of its Service. */
export interface ServiceAllocator {
  /** `127.200.0.0/16`, for messages. */
  readonly addressRange: string;
  /** `30000-32767`, for messages. */
  readonly portRange: string;
  isAddressInRange(address: string): boolean;
  isPortInRange(port: number): boolean;
  /** Allocates a free address; undefined if there is none. */
  allocateAddress(uid: string): string | undefined;
  /** Allocates a node port that is free for all protocols; undefined if there is none. */
  allocatePort(uid: string): number | undefined;
  /** Claims a requested value. Returns false if another Service has it. */
  claimAddress(uid: string, address: string): boolean;
  claimPort(uid: string, protocol: string, port: number): boolean;
}

/** Options of {@link createServiceAllocator}. */
export interface ServiceAllocatorOptions {
  readonly store: Pick<Store, "list" | "watch">;
  readonly clock: Pick<Clock, "now">;
  /** The first two octets of addresses. Default `127.200`. */
  readonly network?: string;
}

/** All addresses of this network are local (RFC 5735), so each Service can listen on its own cluster IP. */
const defaultNetwork = "127.200";
/** The first addresses are reserved for fixed uses, as in Kubernetes. */
const firstAddress = 10;
const lastAddress = 0xff_fe;
const firstPort = 30_000;
const lastPort = 32_767;
/** An allocation that is not stored within this time is free again. */
const pendingMs = 60_000;

/**
 * Allocates addresses of a network and ports from 30000 to 32767. It watches the Services in the store; an allocation that is not
 * stored yet counts as taken for a minute.
 */
export function createServiceAllocator(options: ServiceAllocatorOptions): ServiceAllocator {
  return new WatchingAllocator(options);
}

class WatchingAllocator implements ServiceAllocator {
  readonly addressRange: string;
  readonly portRange = `${firstPort}-${lastPort}`;
  readonly #clock: Pick<Clock, "now">;
  readonly #network: string;
  /** Owners of the allocations of stored Services, by address or port. */
  readonly #taken = new Map<string, string>();
  /** Allocations that are not stored yet. */
  readonly #pending = new Map<string, { readonly uid: string; readonly until: number }>();
  #nextAddress = firstAddress;
  #nextPort = firstPort;

  constructor({ store, clock, network = defaultNetwork }: ServiceAllocatorOptions) {
    this.#clock = clock;
    this.#network = network;
    this.addressRange = `${network}.0.0/16`;
    const { items, revision } = store.list("/services/");
    for (const { object } of items) this.#add(object);
    store.watch("/services/", revision, (events) => {
      for (const { type, object, previous } of events) {
        // A status write shares the spec with the object it replaces.
        if (type === "put" && specOf(object.object) === specOf(previous?.object)) continue;
        if (previous !== undefined) this.#remove(previous.object);
        if (type === "put") this.#add(object.object);
        else this.#remove(object.object);
      }
    });
  }

  isAddressInRange(address: string): boolean {
    return address.startsWith(`${this.#network}.`);
  }

  isPortInRange(port: number): boolean {
    return port >= firstPort && port <= lastPort;
  }

  allocateAddress(uid: string): string | undefined {
    for (let tries = firstAddress; tries <= lastAddress; tries++) {
      const address = `${this.#network}.${this.#nextAddress >> 8}.${this.#nextAddress & 0xff}`;
      this.#nextAddress = this.#nextAddress === lastAddress ? firstAddress : this.#nextAddress + 1;
      if (this.#ownerOf(address) === undefined && this.claimAddress(uid, address)) return address;
    }
    return undefined;
  }

  allocatePort(uid: string): number | undefined {
    for (let tries = firstPort; tries <= lastPort; tries++) {
      const port = this.#nextPort;
      this.#nextPort = port === lastPort ? firstPort : port + 1;
      const keys = protocols.map((protocol) => portKey(protocol, port));
      if (keys.some((key) => this.#ownerOf(key) !== undefined)) continue;
      for (const key of keys) this.#claim(uid, key);
      return port;
    }
    return undefined;
  }

  claimAddress(uid: string, address: string): boolean {
    return this.#claim(uid, address);
  }

  claimPort(uid: string, protocol: string, port: number): boolean {
    return this.#claim(uid, portKey(protocol, port));
  }

  #add(service: ReceivedObject<ServiceObject>): void {
    const { uid = "" } = service.metadata;
    for (const key of keysOf(service)) {
      this.#taken.set(key, uid);
      this.#pending.delete(key);
    }
  }

  #remove(service: ReceivedObject<ServiceObject>): void {
    const { uid = "" } = service.metadata;
    for (const key of keysOf(service)) if (this.#taken.get(key) === uid) this.#taken.delete(key);
  }

  #ownerOf(key: string): string | undefined {
    const owner = this.#taken.get(key);
    if (owner !== undefined) return owner;
    const held = this.#pending.get(key);
    if (held === undefined || held.until > this.#clock.now()) return held?.uid;
    this.#pending.delete(key);
    return undefined;
  }

  #claim(uid: string, key: string): boolean {
    const owner = this.#ownerOf(key);
    if (owner !== undefined && owner !== uid) return false;
    if (owner === undefined) this.#pending.set(key, { uid, until: this.#clock.now() + pendingMs });
    return true;
  }
}

const protocols = ["TCP", "UDP", "SCTP"];

function portKey(protocol: string, port: number): string {
  return `${protocol}/${port}`;
}

/** The allocations of a Service: addresses, and node ports by protocol. */
function keysOf(service: ReceivedObject<ServiceObject>): string[] {
  const addresses = (service.spec?.clusterIPs ?? []).filter((ip) => typeof ip === "string" && ip !== "None" && ip !== "");
  const ports = (service.spec?.ports ?? []).flatMap((port) => {
    const number = port.nodePort;
    return typeof number === "number" && number > 0 ? [portKey(port.protocol ?? "", number)] : [];
  });
  return [...addresses, ...ports];
}

function specOf(service: ReceivedObject<ServiceObject> | undefined): unknown {
  return service?.spec;
}
