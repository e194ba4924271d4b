import { expect, it } from "vitest";
import { AddressPool, blockRange, networkRange } from "./address-pool.ts";

const blockOf = (cidr: string) => {
  const range = blockRange(cidr);
  if (range === undefined) throw new Error(`${cidr} is not a block`);
  return new AddressPool(range);
};

it("allocates the addresses of a block without its first and last one, and reuses a released one after all others", () => {
  const pool = blockOf("10.244.1.0/29");
  const all = ["a", "b", "c", "d", "e", "f"].map((owner) => pool.allocate(owner));
  expect(all).toEqual([1, 2, 3, 4, 5, 6].map((last) => `10.244.1.${last}`));
  expect(() => pool.allocate("g")).toThrow("no Pod address is available");
  pool.release("10.244.1.3");
  expect(pool.allocate("g")).toBe("10.244.1.3");
});

it("skips addresses that end with 0 or 255 in larger blocks", () => {
  const pool = blockOf("192.168.0.0/23");
  const all = new Set(Array.from({ length: 508 }, (_, at) => pool.allocate(String(at))));
  expect(all.has("192.168.0.255")).toBe(false);
  expect(all.has("192.168.1.0")).toBe(false);
  expect(() => pool.allocate("last")).toThrow("no Pod address is available");
});

it("reserves the addresses of its own block only", () => {
  const pool = blockOf("10.244.1.0/24");
  expect(pool.reserve("a", "10.244.1.9")).toBe(true);
  expect(pool.reserve("a", "10.244.1.9")).toBe(true);
  expect(pool.reserve("b", "10.244.1.9")).toBe(false);
  expect(pool.reserve("b", "10.244.2.9")).toBe(false);
  expect(pool.reserve("b", "127.64.0.9")).toBe(false);
  expect(pool.allocate("b")).toBe("10.244.1.10");
});

it("keeps addresses of other loopback networks that Pods already have", () => {
  const pool = new AddressPool(networkRange("127.80"));
  expect(pool.reserve("a", "127.64.0.5")).toBe(true);
  expect(pool.reserve("b", "127.0.0.1")).toBe(false);
  expect(pool.allocate("b")).toBe("127.80.0.1");
});

it.each([
  "10.244.1.0",
  "10.244.1.0/31",
  "10.244.0.0/15",
  "10.244.1.1/24",
  "127.64.0.0/24",
  "224.0.0.0/24",
  "10.244.256.0/24",
  "fd00::/64",
])("rejects %s as a block of Pod addresses", (cidr) => {
  expect(blockRange(cidr)).toBeUndefined();
});
