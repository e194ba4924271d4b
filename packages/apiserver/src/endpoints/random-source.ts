import { randomInt, randomUUID } from "node:crypto";

/** Randomness as a value that is passed in. */
export interface RandomSource {
  /** A UUID (version 4) that no one has had before. */
  uuid(): string;
  /** A whole number from 0 to below `limit`. */
  below(limit: number): number;
}

/** The machine's own randomness. */
export const systemRandom: RandomSource = { uuid: () => randomUUID(), below: (limit) => randomInt(limit) };

/** A source that gives the same sequence for the same seed: for tests that are to be repeated. */
export function createSeededRandom(seed: number): RandomSource {
  let state = seed >>> 0;
  // Mulberry32: small, and good enough for names.
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const hex = (digits: number): string => Array.from({ length: digits }, () => (next() & 15).toString(16)).join("");
  return {
    uuid: () => `${hex(8)}-${hex(4)}-4${hex(3)}-${"89ab"[next() & 3]}${hex(3)}-${hex(12)}`,
    below: (limit) => Math.floor((next() / 2 ** 32) * limit),
  };
}

/** No vowels and none that look alike: what Kubernetes appends to `generateName`. */
const alphabet = "bcdfghjklmnpqrstvwxz2456789";
const suffixLength = 5;
const longestName = 63;

/** A name from `generateName`: the prefix, cut where it is too long, and five random characters. */
export function generateName(prefix: string, random: RandomSource): string {
  let suffix = "";
  for (let i = 0; i < suffixLength; i++) suffix += alphabet[random.below(alphabet.length)];
  return prefix.slice(0, longestName - suffixLength) + suffix;
}
