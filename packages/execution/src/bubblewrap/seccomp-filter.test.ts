import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { seccompFilter } from "./seccomp-filter.ts";
import { allowedCalls, checkedCalls } from "./system-calls.ts";

const x64 = 0xc000_003e;
const arm64 = 0xc000_00b7;

/** Interprets a filter for one call, as the kernel does; returns `allow`, `kill` or the errno. */
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
  throw new Error("the filter ended without a return");
}

const filterOf = (processor: string): Buffer => seccompFilter(processor) ?? Buffer.alloc(0);

const architectures = [
  ["x64", x64, 0],
  ["arm64", arm64, 1],
] as const;

test.each(architectures)("allows on %s exactly the calls of the list", (processor, arch, index) => {
  const filter = filterOf(processor);
  const allowed = new Set(Object.values(allowedCalls).map((numbers) => numbers[index]));
  const checked = new Set<number>(Object.values(checkedCalls).map((numbers) => numbers[index]));
  const last = Math.max(...[...allowed].map((number) => number ?? 0));
  for (let number = 0; number < 700; number++) {
    if (checked.has(number)) continue;
    const expected = allowed.has(number) ? "allow" : number > last ? 38 : 1;
    expect([number, run(filter, arch, number)]).toEqual([number, expected]);
  }
  expect(run(filter, arch, checkedCalls.clone3[index])).toBe(38);
});

test("denies system calls that attack the kernel or other processes", () => {
  const denied: Readonly<Record<string, number>> = {
    mount: 165,
    umount2: 166,
    unshare: 272,
    setns: 308,
    pivot_root: 155,
    chroot: 161,
    bpf: 321,
    perf_event_open: 298,
    userfaultfd: 323,
    io_uring_setup: 425,
    io_uring_enter: 426,
    keyctl: 250,
    add_key: 248,
    request_key: 249,
    open_by_handle_at: 304,
    init_module: 175,
    finit_module: 313,
    kexec_load: 246,
    reboot: 169,
    swapon: 167,
    settimeofday: 164,
    clock_settime: 227,
    open_tree: 428,
    move_mount: 429,
    fsopen: 430,
    mount_setattr: 442,
    pidfd_getfd: 438,
    kcmp: 312,
    syslog: 103,
    iopl: 172,
  };
  for (const [name, number] of Object.entries(denied)) expect([name, run(filterOf("x64"), x64, number)]).toEqual([name, 1]);
});

test.each(architectures)("checks the arguments of clone, ioctl, socket and personality on %s", (processor, arch, index) => {
  const filter = filterOf(processor);
  const clone = (flags: number): string | number => run(filter, arch, checkedCalls.clone[index], [flags]);
  expect([clone(0x11), clone(0x3d0f00)]).toEqual(["allow", "allow"]);
  for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
    expect(clone(flag | 0x11)).toBe(1);
  }
  const ioctl = (request: number): string | number => run(filter, arch, checkedCalls.ioctl[index], [0, request]);
  expect([ioctl(0x5401), ioctl(0x5413), ioctl(0x5412), ioctl(0x541c)]).toEqual(["allow", "allow", 1, 1]);
  const socket = (domain: number): string | number => run(filter, arch, checkedCalls.socket[index], [domain]);
  expect([socket(1), socket(2), socket(10), socket(40), socket(38)]).toEqual(["allow", "allow", "allow", 1, 1]);
  const personality = (value: number): string | number => run(filter, arch, checkedCalls.personality[index], [value]);
  expect([personality(0), personality(0xffffffff), personality(0x40000)]).toEqual(["allow", "allow", 1]);
});

test("kills or denies calls through another architecture's table", () => {
  expect(run(filterOf("x64"), 0x4000_0003, 20)).toBe("kill");
  expect(run(filterOf("x64"), arm64, 0)).toBe("kill");
  expect(run(filterOf("x64"), x64, 0x4000_0000 + 165)).toBe(38);
  expect(seccompFilter("riscv64")).toBeUndefined();
});

/** System call numbers in this machine's kernel headers, if they are installed. */
function numbersOf(header: string, prefix: RegExp): ReadonlyMap<string, number> {
  const text = existsSync(header) ? readFileSync(header, "latin1") : "";
  return new Map([...text.matchAll(prefix)].map(([, name = "", number]) => [name, Number(number)]));
}

test("uses the kernel's numbers", () => {
  const here = numbersOf("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", /^#define __NR_(\w+)\s+(\d+)$/gm);
  const generic = numbersOf("/usr/include/asm-generic/unistd.h", /^#define __NR(?:3264)?_(\w+)\s+(\d+)$/gm);
  for (const [name, [first, second]] of Object.entries({ ...allowedCalls, ...checkedCalls })) {
    if (here.has(name)) expect([name, here.get(name)]).toEqual([name, first]);
    if (generic.has(name) && second !== undefined) expect([name, generic.get(name)]).toEqual([name, second]);
  }
});
