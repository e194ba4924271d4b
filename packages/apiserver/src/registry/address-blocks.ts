import { isIpAddress } from "./field-checks.ts";

/** A block of IP addresses: `10.0.0.0/8`, `fd00::/8`. */
export interface AddressBlock {
  readonly isIpv6: boolean;
  readonly prefixLength: number;
  /** The network bits, without host bits. */
  readonly network: bigint;
}

/** Parses CIDR notation (RFC 4632); undefined if it is invalid. */
export function parseAddressBlock(text: string): AddressBlock | undefined {
  const [address = "", length = "", ...rest] = text.split("/");
  if (rest.length > 0 || !isIpAddress(address) || !/^(?:0|[1-9]\d{0,2})$/.test(length)) return undefined;
  const isIpv6 = address.includes(":");
  const bits = isIpv6 ? 128 : 32;
  const prefixLength = Number(length);
  if (prefixLength > bits) return undefined;
  const hostBits = BigInt(bits - prefixLength);
  const network = ((isIpv6 ? bitsOfIpv6(address) : bitsOfIpv4(address)) >> hostBits) << hostBits;
  return { isIpv6, prefixLength, network };
}

/** Whether `inner` is a proper subset of `outer`. */
export function isStrictlyWithin(inner: AddressBlock, outer: AddressBlock): boolean {
  if (inner.isIpv6 !== outer.isIpv6 || inner.prefixLength <= outer.prefixLength) return false;
  const hostBits = BigInt((outer.isIpv6 ? 128 : 32) - outer.prefixLength);
  return inner.network >> hostBits === outer.network >> hostBits;
}

function bitsOfIpv4(address: string): bigint {
  return address.split(".").reduce((bits, part) => (bits << 8n) | BigInt(part), 0n);
}

function bitsOfIpv6(address: string): bigint {
  const dotted = /[\d.]+\.[\d.]+$/.exec(address)?.[0];
  const plain =
    dotted === undefined
      ? address
      : `${address.slice(0, -dotted.length)}${(bitsOfIpv4(dotted) >> 16n).toString(16)}:${(bitsOfIpv4(dotted) & 0xffffn).toString(16)}`;
  const [head = "", tail] = plain.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => "0"), ...after];
  return groups.reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n);
}
