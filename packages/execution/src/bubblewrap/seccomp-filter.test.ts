import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ociSeccomp, seccompFilter, type CallProfile } from "./seccomp-filter.ts";
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
    else if (code === 0x54) accumulator &= k;
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

/** [domain, type, protocol] and what is expected with the profiles `standard` and `untrusted`. */
const sockets: readonly (readonly [readonly [number, number, number], string | number, string | number])[] = [
  [[1, 1, 0], "allow", "allow"],
  [[2, 1, 6], "allow", "allow"],
  [[10, 0x80801, 262], "allow", "allow"],
  [[2, 2, 17], "allow", "allow"],
  [[10, 2, 58], "allow", "allow"],
  [[16, 0x80003, 0], "allow", "allow"],
  // SCTP, DCCP, UDP over a stream, raw packets.
  [[2, 1, 132], "allow", 1],
  [[2, 6, 33], "allow", 1],
  [[2, 1, 17], "allow", 1],
  [[2, 3, 1], "allow", 1],
  // NETLINK_USERSOCK, NETLINK_AUDIT.
  [[16, 3, 2], "allow", 93],
  [[16, 3, 9], "allow", 93],
  // AF_CAN, AF_BLUETOOTH, AF_TIPC, AF_PACKET.
  ...[29, 31, 30, 17].map((domain) => [[domain, 3, 0], "allow", 1] as const),
  [[40, 1, 0], 1, 1],
  [[38, 5, 0], 1, 1],
];

test.each(architectures)("limits sockets on %s", (processor, arch, index) => {
  for (const [args, ...expected] of sockets) {
    const answers = (["standard", "untrusted"] as const).map((profile) =>
      run(seccompFilter(processor, profile) ?? Buffer.alloc(0), arch, checkedCalls.socket[index], args),
    );
    expect([args, ...answers]).toEqual([args, ...expected]);
  }
  const pair = (profile: CallProfile, domain: number): string | number =>
    run(seccompFilter(processor, profile) ?? Buffer.alloc(0), arch, checkedCalls.socketpair[index], [domain]);
  expect([pair("standard", 30), pair("untrusted", 30), pair("untrusted", 1)]).toEqual(["allow", 1, "allow"]);
});

interface OciProfile {
  readonly syscalls: readonly {
    readonly names: readonly string[];
    readonly action: string;
    readonly errnoRet?: number;
    readonly args?: readonly { index: number; op: string; value: number; valueTwo?: number }[];
  }[];
}

/** Interprets a profile as runc does: it compares registers of 64 bits, and takes conditions on the same argument as alternatives. */
function runOci(profile: CallProfile, name: string, args: readonly number[]): string | number {
  const holds = ({
    index,
    op,
    value,
    valueTwo = 0,
  }: {
    index: number;
    op: string;
    value: number;
    valueTwo?: number;
  }): boolean => {
    const register = BigInt(args[index] ?? 0);
    if (op === "SCMP_CMP_EQ") return register === BigInt(value);
    if (op === "SCMP_CMP_NE") return register !== BigInt(value);
    return op === "SCMP_CMP_MASKED_EQ" && (register & BigInt(value)) === BigInt(valueTwo);
  };
  const { syscalls } = ociSeccomp(profile) as unknown as OciProfile;
  const matching = syscalls.filter(({ names, args: conditions = [] }) => {
    if (!names.includes(name)) return false;
    const isRepeated = new Set(conditions.map(({ index }) => index)).size < conditions.length;
    return isRepeated ? conditions.some(holds) : conditions.every(holds);
  });
  const answers = new Set(matching.map(({ action, errnoRet }) => (action === "SCMP_ACT_ALLOW" ? "allow" : (errnoRet ?? 1))));
  expect(answers.size).toBeLessThan(2);
  return [...answers][0] ?? 1;
}

test("an OCI runtime checks the same arguments, even if only the lower half of a register is used", () => {
  const high = 2 ** 32;
  for (const [[domain, ...rest], ...expected] of sockets) {
    const answers = (["standard", "untrusted"] as const).map((profile) => runOci(profile, "socket", [domain, ...rest]));
    expect([domain, rest, ...answers]).toEqual([domain, rest, ...expected]);
    expect(runOci("standard", "socket", [high + domain, ...rest])).toBe(1);
  }
  for (const request of [0x5412, 0x541c])
    expect([runOci("standard", "ioctl", [0, request]), runOci("standard", "ioctl", [0, high + request])]).toEqual([1, 1]);
  for (const request of [0, 0x5401, 0x5411, 0x5413, 0x541b, 0x541d, 0x541e, 0x5410, 0x80045430, 0xffffffff])
    expect([request, runOci("standard", "ioctl", [0, request])]).toEqual([request, "allow"]);
  expect([runOci("untrusted", "socketpair", [30, 1, 0]), runOci("untrusted", "socketpair", [1, 1, 0])]).toEqual([1, "allow"]);
  expect([
    runOci("standard", "clone", [0x11]),
    runOci("standard", "clone", [0x10000011]),
    runOci("standard", "personality", [0x40000]),
  ]).toEqual(["allow", 1, 1]);
});

/** [name, arguments] of calls, and what is expected with the profile `untrusted`. `standard` allows all of them. */
const sharedResources: readonly (readonly [
  name: keyof typeof allowedCalls,
  args: readonly number[],
  answer: string | number,
])[] = [
  ["io_setup", [1, 0], 38],
  ["io_getevents", [1, 0], "allow"],
  ["mmap", [0, 4096, 3, 0x22], "allow"],
  ["mmap", [0, 4096, 3, 0x4_0022], 1],
  ["memfd_create", [0, 3], "allow"],
  ["memfd_create", [0, 5], 1],
  ["shmget", [0, 4096, 0o1600], "allow"],
  ["shmget", [0, 4096, 0o5600], 1],
  // SO_REUSEADDR, SO_DETACH_FILTER; SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_EBPF; TCP_CC_INFO, whose number is that of SO_ATTACH_FILTER.
  ["setsockopt", [0, 1, 2], "allow"],
  ["setsockopt", [0, 1, 27], "allow"],
  ["setsockopt", [0, 1, 26], 1],
  ["setsockopt", [0, 1, 52], 1],
  ["setsockopt", [0, 6, 26], "allow"],
  // PR_SET_NAME, PR_SET_SECCOMP; SECCOMP_GET_ACTION_AVAIL, SECCOMP_SET_MODE_FILTER.
  ["prctl", [15, 0], "allow"],
  ["prctl", [22, 2], 22],
  ["seccomp", [2, 0], "allow"],
  ["seccomp", [1, 0], 22],
];

test.each(architectures)(
  "denies untrusted programs on %s what all programs share, or no limit counts",
  (processor, arch, index) => {
    for (const [name, args, expected] of sharedResources) {
      const number = allowedCalls[name]?.[index] ?? 0;
      const answers = (["standard", "untrusted"] as const).map((profile) =>
        run(seccompFilter(processor, profile) ?? Buffer.alloc(0), arch, number, args),
      );
      expect([name, args, ...answers]).toEqual([name, args, "allow", expected]);
      expect([name, args, runOci("standard", name, args), runOci("untrusted", name, args)]).toEqual([
        name,
        args,
        "allow",
        expected,
      ]);
    }
  },
);

test("an OCI runtime denies them also if only the lower half of a register is used", () => {
  const high = 2 ** 32;
  expect([
    runOci("untrusted", "mmap", [0, 4096, 3, high + 0x4_0022]),
    runOci("untrusted", "setsockopt", [0, high + 1, 26]),
    runOci("untrusted", "setsockopt", [0, 1, high + 26]),
    runOci("untrusted", "prctl", [high + 22, 2]),
  ]).toEqual([1, 1, 1, 1]);
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
