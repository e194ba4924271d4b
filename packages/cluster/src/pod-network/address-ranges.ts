import { isIPv4 } from "node:net";

/** A range of IPv4 addresses as numbers, both ends included. */
export interface AddressRange {
  readonly first: number;
  readonly last: number;
}

/** The number of an IPv4 address in dotted notation. */
export function addressNumber(address: string): number {
  return address.split(".").reduce((number, part) => number * 256 + Number(part), 0);
}

/** Formats an address as text, in dotted notation. */
export function formatAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join(".");
}

/** Parses an IPv4 block in CIDR notation, with or without host bits. Undefined if it is something else, such as an IPv6 block. */
export function parseRange(text: string): AddressRange | undefined {
  const [address = "", length = "", ...rest] = text.split("/");
  if (rest.length > 0 || !isIPv4(address) || !/^\d{1,2}$/.test(length) || Number(length) > 32) return undefined;
  const size = 2 ** (32 - Number(length));
  const first = Math.floor(addressNumber(address) / size) * size;
  return { first, last: first + size - 1 };
}

/** The union of ranges: sorted, without overlaps, with adjacent ranges merged. */
export function uniteRanges(ranges: readonly AddressRange[]): readonly AddressRange[] {
  // Numbers sort natively, so that ten thousand ranges do not block the event loop. At one address, starts precede ends.
  const bounds = new Float64Array(ranges.length * 2);
  for (const [index, range] of ranges.entries()) {
    bounds[index * 2] = range.first * 2;
    bounds[index * 2 + 1] = (range.last + 1) * 2 + 1;
  }
  bounds.sort();
  const united: AddressRange[] = [];
  let depth = 0;
  let first = 0;
  for (const bound of bounds) {
    if (bound % 2 === 0) {
      if (depth === 0) first = bound / 2;
      depth++;
    } else {
      depth--;
      if (depth === 0) united.push({ first, last: (bound - 1) / 2 - 1 });
    }
  }
  return united;
}

/** A range without the addresses of others. */
export function subtractRanges(range: AddressRange, removed: readonly AddressRange[]): readonly AddressRange[] {
  const left: AddressRange[] = [];
  let next = range.first;
  for (const { first, last } of uniteRanges(removed)) {
    if (last < next) continue;
    if (first > range.last) break;
    if (first > next) left.push({ first: next, last: first - 1 });
    next = last + 1;
  }
  if (next <= range.last) left.push({ first: next, last: range.last });
  return left;
}

/** The addresses of a block without its exceptions. Yields often, so that the caller can give way to other work. */
export function* blockRanges(cidr: string, except: readonly string[] = []): Generator<void, readonly AddressRange[]> {
  const range = parseRange(cidr);
  if (range === undefined) return [];
  const removed: AddressRange[] = [];
  for (const [index, text] of except.entries()) {
    if (index % 256 === 0) yield;
    const exception = parseRange(text);
    // A block with an exception that cannot be read allows nothing.
    if (exception === undefined) return [];
    removed.push(exception);
  }
  return subtractRanges(range, removed);
}
