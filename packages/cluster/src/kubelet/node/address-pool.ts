/** What any Pod's address can be: 127.64.0.1 to 127.127.255.253, away from 127.0.0.1 and from Services' addresses. */
const least = ipNumber(64, 0, 1);
const most = ipNumber(127, 255, 253);

function ipNumber(b: number, c: number, d: number): number {
  return (b << 16) | (c << 8) | d;
}

/** Addresses of Pods, one each, given again only after all others. */
export class AddressPool {
  readonly #taken = new Map<string, string>();
  readonly #first: number;
  readonly #last: number;
  #next: number;

  /** `network`: the first two parts of new addresses, `127.64` to `127.127`. Default: `127.64`. */
  constructor(network = "127.64") {
    const second = Number(network.split(".")[1]);
    this.#first = ipNumber(second, 0, 1);
    this.#last = ipNumber(second, 255, 253);
    this.#next = this.#first;
  }

  /**
   * Marks an address, of this network or another, as one that `owner` has had since before. False: somebody else has it, or it is no Pod's
   * address.
   */
  keep(owner: string, address: string): boolean {
    const number = podAddressNumber(address);
    if (number === undefined || (this.#taken.get(address) ?? owner) !== owner) return false;
    this.#taken.set(address, owner);
    if (number >= this.#next && number <= this.#last) this.#next = this.#after(number);
    return true;
  }

  /** An address for `owner`, which keeps it until it is freed. */
  take(owner: string): string {
    for (let tries = 0; tries <= this.#last - this.#first; tries++) {
      const number = this.#next;
      this.#next = this.#after(number);
      const octet = number & 0xff;
      if (octet === 0 || octet === 255) continue;
      const address = `127.${number >> 16}.${(number >> 8) & 0xff}.${octet}`;
      if (!this.#taken.has(address)) {
        this.#taken.set(address, owner);
        return address;
      }
    }
    throw new Error("no address is left for a Pod");
  }

  #after(number: number): number {
    return number === this.#last ? this.#first : number + 1;
  }

  free(address: string): void {
    this.#taken.delete(address);
  }
}

function podAddressNumber(address: string): number | undefined {
  const parts = address.split(".").map(Number);
  const [a, b = -1, c = -1, d = -1] = parts;
  if (parts.length !== 4 || a !== 127 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255))
    return undefined;
  const number = ipNumber(b, c, d);
  return number >= least && number <= most ? number : undefined;
}
