import type { Clock } from "@keelson/api-machinery/time";
import type { Store } from "../../../storage/store.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";

/** Hands out what Services share: addresses and node ports. A thing that is handed out belongs to the uid of its Service. */
export interface ServiceAllocator {
  /** As a network: `127.200.0.0/16`, for messages. */
  readonly addressRange: string;
  /** As `30000-32767`, for messages. */
  readonly portRange: string;
  isAddressInRange(address: string): boolean;
  isPortInRange(port: number): boolean;
  /** A free address, which is then the Service's; undefined where none is free. */
  allocateAddress(uid: string): string | undefined;
  /** A free node port for all protocols; undefined where none is free. */
  allocatePort(uid: string): number | undefined;
  /** Takes what a client asked for by itself. False: it is another's. */
  claimAddress(uid: string, address: string): boolean;
  claimPort(uid: string, protocol: string, port: number): boolean;
}

/** Options of {@link createServiceAllocator}. */
export interface ServiceAllocatorOptions {
  readonly store: Pick<Store, "list" | "watch">;
  readonly clock: Pick<Clock, "now">;
  /** The first two parts of addresses. Default `127.200`. */
  readonly network?: string;
}

/** Every address of this network is of this machine (RFC 5735), so that each Service can listen where its clients look for it. */
const defaultNetwork = "127.200";
/** The first ones are for fixed uses, as in Kubernetes. */
const firstAddress = 10;
const lastAddress = 0xff_fe;
const firstPort = 30_000;
const lastPort = 32_767;
/** What was handed out and has not come to the store by then is free again. */
const pendingMs = 60_000;

/**
 * Hands out addresses of a network and ports from 30000 to 32767. What is taken is read from the Services in the store and
 * followed there; what was handed out a moment ago counts as taken until it has come there, or a minute has passed.
 */
export function createServiceAllocator({ store, clock, network = defaultNetwork }: ServiceAllocatorOptions): ServiceAllocator {
  const taken = new Map<string, string>();
  const pending = new Map<string, { readonly uid: string; readonly until: number }>();
  let nextAddress = firstAddress;
  let nextPort = firstPort;

  const add = (service: unknown): void => {
    const uid = textAt(service, "metadata", "uid");
    for (const key of keysOf(service)) {
      taken.set(key, uid);
      pending.delete(key);
    }
  };
  const remove = (service: unknown): void => {
    const uid = textAt(service, "metadata", "uid");
    for (const key of keysOf(service)) if (taken.get(key) === uid) taken.delete(key);
  };
  const { items, revision } = store.list("/services/");
  for (const { object } of items) add(object);
  store.watch("/services/", revision, (events) => {
    for (const { type, object, previous } of events) {
      // A write through `status` shares the spec with what it replaces.
      if (type === "put" && valueAt(object.object, "spec") === valueAt(previous?.object, "spec")) continue;
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

/** What a Service has: its addresses, and node ports by protocol. */
function keysOf(service: unknown): string[] {
  const addresses = listAt(service, "spec", "clusterIPs").filter((ip) => typeof ip === "string" && ip !== "None" && ip !== "");
  const ports = listAt(service, "spec", "ports").flatMap((port) => {
    const number = valueAt(port, "nodePort");
    return typeof number === "number" && number > 0 ? [portKey(textAt(port, "protocol"), number)] : [];
  });
  return [...(addresses as string[]), ...ports];
}
