import { ClusterError } from "../../cluster-error.ts";

/**
 * The range of Pod addresses without the first octet: 127.64.0.1 to 127.127.255.253 on loopback, 10.64.0.1 to 10.127.255.250 in
 * network namespaces. It overlaps neither 127.0.0.1 nor Service addresses.
 */
const minAddress = ipNumber(64, 0, 1);
const maxAddress = ipNumber(127, 255, 253);

function ipNumber(b: number, c: number, d: number): number {
  return (b << 16) | (c << 8) | d;
}

/** Allocates Pod addresses. A released address is reused only after all others. */
export class AddressPool {
  readonly #taken = new Map<string, string>();
  readonly #firstOctet: string;
  readonly #first: number;
  readonly #last: number;
  #next: number;

  /** `network`: the first two octets of new addresses, `127.64` to `127.127` or `10.64` to `10.127`. Default: `127.64`. */
  constructor(network = "127.64") {
    const [firstOctet = "", secondOctet] = network.split(".");
    const second = Number(secondOctet);
    this.#firstOctet = firstOctet;
    this.#first = ipNumber(second, 0, 1);
    // The last addresses of a namespaced network belong to the node.
    this.#last = ipNumber(second, 255, firstOctet === "127" ? 253 : 250);
    this.#next = this.#first;
  }

  /** Reserves a known address, of this network or another, for its owner. Returns false if it is taken or not a Pod address. */
  reserve(owner: string, address: string): boolean {
    const number = podAddressNumber(this.#firstOctet, address);
    if (number === undefined || (this.#taken.get(address) ?? owner) !== owner) return false;
    this.#taken.set(address, owner);
    if (number >= this.#next && number <= this.#last) this.#next = this.#after(number);
    return true;
  }

  /** Allocates an address for `owner`, who keeps it until `free`. */
  allocate(owner: string): string {
    for (let tries = 0; tries <= this.#last - this.#first; tries++) {
      const number = this.#next;
      this.#next = this.#after(number);
      const octet = number & 0xff;
      if (octet === 0 || octet === 255) continue;
      const address = `${this.#firstOctet}.${number >> 16}.${(number >> 8) & 0xff}.${octet}`;
      if (!this.#taken.has(address)) {
        this.#taken.set(address, owner);
        return address;
      }
    }
    throw new ClusterError("AddressesExhausted", "no Pod address is available");
  }

  #after(number: number): number {
    return number === this.#last ? this.#first : number + 1;
  }

  release(address: string): void {
    this.#taken.delete(address);
  }
}

function podAddressNumber(firstOctet: string, address: string): number | undefined {
  const parts = address.split(".").map(Number);
  const [a, b = -1, c = -1, d = -1] = parts;
  if (parts.length !== 4 || a !== Number(firstOctet) || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255))
    return undefined;
  const number = ipNumber(b, c, d);
  return number >= minAddress && number <= maxAddress ? number : undefined;
}
