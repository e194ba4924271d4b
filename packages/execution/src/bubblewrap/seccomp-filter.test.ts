import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { checkedCalls, deniedCalls, seccompFilter } from "./seccomp-filter.ts";

const x64 = 0xc000_003e;
const arm64 = 0xc000_00b7;

/** Runs a filter as the kernel does, on a call; answers `allow`, `kill` or the errno. */
function run(filter: Buffer, arch: number, number: number, args: readonly number[] = []): string | number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number, 0);
  data.writeUInt32LE(arch, 4);
  for (const [index, value] of args.entries()) data.writeBigUInt64LE(BigInt(value), 16 + 8 * index);
  let accumulator = 0;
  for (let at = 0; at < filter.length / 8; at++) {
    const code = filter.readUInt16LE(at * 8);
    const [yes, no, k] = [filter.readUInt8(at * 8 + 2), filter.readUInt8(at * 8 + 3), filter.readUInt32LE(at * 8 + 4)];
    if (code === 0x20) accumulator = data.readUInt32LE(k);
    else if (code === 0x15) at += accumulator === k ? yes : no;
    else if (code === 0x35) at += accumulator >= k ? yes : no;
    else if (code === 0x45) at += (accumulator & k) !== 0 ? yes : no;
    else if (code === 0x06) return k === 0x7fff_0000 ? "allow" : k === 0x8000_0000 ? "kill" : k & 0xffff;
    else throw new Error(`instruction ${code}`);
  }
  throw new Error("the filter ends without an answer");
}

const filterOf = (processor: string): Buffer => seccompFilter(processor) ?? Buffer.alloc(0);

test.each([
  ["x64", x64, 0],
  ["arm64", arm64, 1],
] as const)("on %s what is on the list is refused, and every other call is allowed", (processor, arch, index) => {
  const filter = filterOf(processor);
  const denied = new Set(Object.values(deniedCalls).map((numbers) => numbers[index]));
  for (let number = 0; number < 600; number++) {
    const wanted = denied.has(number) ? 1 : number === checkedCalls.clone3[index] ? 38 : "allow";
    expect([number, run(filter, arch, number)]).toEqual([number, wanted]);
  }
});

test.each([
  ["x64", x64, 0],
  ["arm64", arm64, 1],
] as const)(
  "on %s a clone may make threads and processes, and no namespace; an ioctl may not type",
  (processor, arch, index) => {
    const filter = filterOf(processor);
    const clone = (flags: number): string | number => run(filter, arch, checkedCalls.clone[index], [flags]);
    expect([clone(0x11), clone(0x3d0f00)]).toEqual(["allow", "allow"]);
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
      expect(clone(flag | 0x11)).toBe(1);
    }
    const ioctl = (request: number): string | number => run(filter, arch, checkedCalls.ioctl[index], [0, request]);
    expect([ioctl(0x5401), ioctl(0x5413), ioctl(0x5412), ioctl(0x541c)]).toEqual(["allow", "allow", 1, 1]);
  },
);

test("calls through another processor's table are no way around", () => {
  expect(run(filterOf("x64"), 0x4000_0003, 20)).toBe("kill");
  expect(run(filterOf("x64"), arm64, 0)).toBe("kill");
  expect(run(filterOf("x64"), x64, 0x4000_0000 + 165)).toBe(38);
  expect(seccompFilter("riscv64")).toBeUndefined();
});

/** Numbers that the kernel's headers on this machine have, where they are installed. */
function numbersOf(header: string, prefix: RegExp): ReadonlyMap<string, number> {
  const text = existsSync(header) ? readFileSync(header, "latin1") : "";
  return new Map([...text.matchAll(prefix)].map(([, name = "", number]) => [name, Number(number)]));
}

test("the numbers are the kernel's", () => {
  const here = numbersOf("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", /^#define __NR_(\w+)\s+(\d+)$/gm);
  const generic = numbersOf("/usr/include/asm-generic/unistd.h", /^#define __NR(?:3264)?_(\w+)\s+(\d+)$/gm);
  for (const [name, [first, second]] of Object.entries({ ...deniedCalls, ...checkedCalls })) {
    if (here.size > 0) expect([name, here.get(name)]).toEqual([name, first]);
    if (generic.size > 0 && second !== undefined) expect([name, generic.get(name)]).toEqual([name, second]);
  }
});
