import { randomInt, randomUUID } from "node:crypto";

/** A source of randomness, injected wherever it is used. */
export interface RandomSource {
  /** A new UUID (version 4). */
  uuid(): string;
  /** A uniform integer in `[0, limit)`. */
  below(limit: number): number;
}

/** Cryptographic randomness from the operating system. */
export const systemRandom: RandomSource = { uuid: () => randomUUID(), below: (limit) => randomInt(limit) };

/** Returns the same sequence for the same seed, for reproducible tests. */
export function createSeededRandom(seed: number): RandomSource {
  let state = seed >>> 0;
  // Mulberry32.
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

/** The alphabet of Kubernetes' generated suffixes: no vowels and no characters that look alike. */
const alphabet = "bcdfghjklmnpqrstvwxz2456789";
const suffixLength = 5;
const maxNameLength = 63;

/** Generates a name: `prefix`, truncated if it is too long, plus five random characters. */
export function generateName(prefix: string, random: RandomSource): string {
  let suffix = "";
  for (let i = 0; i < suffixLength; i++) suffix += alphabet[random.below(alphabet.length)];
  return prefix.slice(0, maxNameLength - suffixLength) + suffix;
}
