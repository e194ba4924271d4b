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
export function createServiceAllocator({ store, clock, network = defaultNetwork }: ServiceAllocatorOptions): ServiceAllocator {
  const taken = new Map<string, string>();
  const pending = new Map<string, { readonly uid: string; readonly until: number }>();
  let nextAddress = firstAddress;
  let nextPort = firstPort;

  const add = (service: ReceivedObject<ServiceObject>): void => {
    const uid = service.metadata?.uid ?? "";
    for (const key of keysOf(service)) {
      taken.set(key, uid);
      pending.delete(key);
    }
  };
  const remove = (service: ReceivedObject<ServiceObject>): void => {
    const uid = service.metadata?.uid ?? "";
    for (const key of keysOf(service)) if (taken.get(key) === uid) taken.delete(key);
  };
  const { items, revision } = store.list("/services/");
  for (const { object } of items) add(object);
  store.watch("/services/", revision, (events) => {
    for (const { type, object, previous } of events) {
      // A status write shares the spec with the object it replaces.
      if (type === "put" && specOf(object.object) === specOf(previous?.object)) continue;
      if (previous !== undefined) remove(previous.object);
      if (type === "put") add(object.object);
      else remove(object.object);
    }
  });

  const ownerOf = (key: string): string | undefined => {
    const owner = taken.get(key);
    if (owner !== undefined) return owner;
    const held = pending.get(key);
    if (held === undefined || held.until > clock.now()) return held?.uid;
    pending.delete(key);
    return undefined;
  };
  const claim = (uid: string, key: string): boolean => {
    const owner = ownerOf(key);
    if (owner !== undefined && owner !== uid) return false;
    if (owner === undefined) pending.set(key, { uid, until: clock.now() + pendingMs });
    return true;
  };

  return {
    addressRange: `${network}.0.0/16`,
    portRange: `${firstPort}-${lastPort}`,
    isAddressInRange: (address) => address.startsWith(`${network}.`),
    isPortInRange: (port) => port >= firstPort && port <= lastPort,
    allocateAddress(uid) {
      for (let tries = firstAddress; tries <= lastAddress; tries++) {
        const address = `${network}.${nextAddress >> 8}.${nextAddress & 0xff}`;
        nextAddress = nextAddress === lastAddress ? firstAddress : nextAddress + 1;
        if (ownerOf(address) === undefined && claim(uid, address)) return address;
      }
      return undefined;
    },
    allocatePort(uid) {
      for (let tries = firstPort; tries <= lastPort; tries++) {
        const port = nextPort;
        nextPort = nextPort === lastPort ? firstPort : nextPort + 1;
        const keys = protocols.map((protocol) => portKey(protocol, port));
        if (keys.some((key) => ownerOf(key) !== undefined)) continue;
        for (const key of keys) claim(uid, key);
        return port;
      }
      return undefined;
    },
    claimAddress: claim,
    claimPort: (uid, protocol, port) => claim(uid, portKey(protocol, port)),
  };
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
