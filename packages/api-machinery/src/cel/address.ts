/** An IP address as a number with its width in bits. */
export class IpAddress {
  readonly value: bigint;
  readonly bits: 32 | 128;

  constructor(value: bigint, bits: 32 | 128) {
    this.value = value;
    this.bits = bits;
  }

  /** The canonical form (RFC 5952). */
  toString(): string {
    if (this.bits === 32) return [24n, 16n, 8n, 0n].map((shift) => (this.value >> shift) & 255n).join(".");
    const groups = Array.from({ length: 8 }, (_, index) => Number((this.value >> BigInt(112 - 16 * index)) & 0xffffn));
    let best = { start: -1, length: 1 };
    for (let start = 0; start < 8; start++) {
      let length = 0;
      while (groups[start + length] === 0) length++;
      if (length > best.length) best = { start, length };
    }
    const text = (part: readonly number[]): string => part.map((group) => group.toString(16)).join(":");
    if (best.start < 0) return text(groups);
    return `${text(groups.slice(0, best.start))}::${text(groups.slice(best.start + best.length))}`;
  }
}

/** A network: an address and the length of its prefix. */
export class Cidr {
  readonly address: IpAddress;
  readonly prefixLength: number;

  constructor(address: IpAddress, prefixLength: number) {
    this.address = address;
    this.prefixLength = prefixLength;
  }

  /** The network with its host bits cleared. */
  get masked(): IpAddress {
    const shift = BigInt(this.address.bits - this.prefixLength);
    return new IpAddress((this.address.value >> shift) << shift, this.address.bits);
  }

  contains(address: IpAddress): boolean {
    return address.bits === this.address.bits && new Cidr(address, this.prefixLength).masked.value === this.masked.value;
  }

  toString(): string {
    return `${this.address.toString()}/${this.prefixLength}`;
  }
}

/**
 * Parses an IP address; `undefined` if it is malformed. Zones, IPv4-mapped IPv6 and leading zeros are not allowed (KEP-2876).
 */
export function parseIp(text: string): IpAddress | undefined {
  if (text.length > 45) return undefined;
  if (!text.includes(":")) {
    const parts = text.split(".");
    if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256)) return undefined;
    return new IpAddress(
      parts.reduce((value, part) => (value << 8n) | BigInt(part), 0n),
      32,
    );
  }
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const groupsOf = (half: string): string[] => (half === "" ? [] : half.split(":"));
  const [head = [], tail = []] = halves.map(groupsOf);
  const count = head.length + tail.length;
  if (halves.length === 2 ? count > 7 : count !== 8) return undefined;
  const groups = [...head, ...Array.from({ length: 8 - count }, () => "0"), ...tail];
  if (!groups.every((group) => /^[\da-fA-F]{1,4}$/.test(group))) return undefined;
  return new IpAddress(
    groups.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n),
    128,
  );
}

/** Parses a network in CIDR notation; `undefined` if it is malformed. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.lastIndexOf("/");
  const address = slash < 0 ? undefined : parseIp(text.slice(0, slash));
  const length = text.slice(slash + 1);
  if (address === undefined || !/^(?:0|[1-9]\d{0,2})$/.test(length) || Number(length) > address.bits) return undefined;
  return new Cidr(address, Number(length));
}
