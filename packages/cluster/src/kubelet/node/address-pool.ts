import { ClusterError } from "../../cluster-error.ts";

/** The addresses that a node gives to its Pods, as 32-bit numbers. */
export interface PodAddressRange {
  /** The first and the last new address. */
  readonly first: number;
  readonly last: number;
  /** Whether an address that a Pod already has belongs to this node. */
  readonly includes: (address: number) => boolean;
}

/** The second octets of loopback networks and of networks of Pods. They contain neither 127.0.0.1 nor Service addresses. */
const networks = { first: 64, last: 127 };

/**
 * The range of a network: its first two octets, `127.64` to `127.127` on loopback, `10.64` to `10.127` in network namespaces. Pods may also have
 * addresses of the other networks with the same first octet: a node keeps the Pods that it had before.
 */
export function networkRange(network: string): PodAddressRange {
  const [a = 127, b = 64] = network.split(".").map(Number);
  const isLoopback = a === 127;
  return {
    first: addressNumber(a, b, 0, 1),
    // The last addresses of a namespaced network belong to the node.
    last: addressNumber(a, b, 255, isLoopback ? 253 : 250),
    includes: (address) =>
      address >= addressNumber(a, networks.first, 0, 1) && address <= addressNumber(a, networks.last, 255, 253),
  };
}

/**
 * The range of an IPv4 block in CIDR notation, without its first and its last address. Undefined if the text is not a block of 4 to 65,536
 * addresses that starts at a multiple of its size, or if it is on loopback or multicast.
 */
export function blockRange(cidr: string): PodAddressRange | undefined {
  const match = /^((?:\d{1,3}\.){3}\d{1,3})\/(\d{1,2})$/.exec(cidr);
  const start = match === null ? undefined : parseAddress(match[1] ?? "");
  const bits = Number(match?.[2]);
  if (start === undefined || bits < 16 || bits > 30) return undefined;
  const size = 2 ** (32 - bits);
  const firstOctet = start >>> 24;
  if (start % size !== 0 || firstOctet === 0 || firstOctet === 127 || firstOctet >= 224) return undefined;
  const [first, last] = [start + 1, start + size - 2];
  return { first, last, includes: (address) => address >= first && address <= last };
}

/** Allocates Pod addresses. A released address is reused only after all others. */
export class AddressPool {
  readonly #taken = new Map<string, string>();
  readonly #range: PodAddressRange;
  #next: number;

  /** Default: the network `127.64`. */
  constructor(range: PodAddressRange = networkRange("127.64")) {
    this.#range = range;
    this.#next = range.first;
  }

  /** Reserves a known address, of this network or another, for its owner. Returns false if it is taken or not a Pod address. */
  reserve(owner: string, address: string): boolean {
    const number = parseAddress(address);
    if (number === undefined || !this.#range.includes(number) || (this.#taken.get(address) ?? owner) !== owner) return false;
    this.#taken.set(address, owner);
    if (number >= this.#next && number <= this.#range.last) this.#next = this.#after(number);
    return true;
  }

  /** Allocates an address for `owner`, who keeps it until `release`. */
  allocate(owner: string): string {
    const { first, last } = this.#range;
    for (let tries = 0; tries <= last - first; tries++) {
      const number = this.#next;
      this.#next = this.#after(number);
      const octet = number & 0xff;
      if (octet === 0 || octet === 255) continue;
      const address = `${number >>> 24}.${(number >>> 16) & 0xff}.${(number >>> 8) & 0xff}.${octet}`;
      if (!this.#taken.has(address)) {
        this.#taken.set(address, owner);
        return address;
      }
    }
    throw new ClusterError("AddressesExhausted", "no Pod address is available");
  }

  #after(number: number): number {
    return number === this.#range.last ? this.#range.first : number + 1;
  }

  release(address: string): void {
    this.#taken.delete(address);
  }
}

const addressNumber = (a: number, b: number, c: number, d: number): number => ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;

function parseAddress(address: string): number | undefined {
  const parts = address.split(".").map(Number);
  const [a = -1, b = -1, c = -1, d = -1] = parts;
  if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) return undefined;
  return addressNumber(a, b, c, d);
}
