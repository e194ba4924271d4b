import { allowedCalls, checkedCalls } from "./system-calls.ts";

/*
 * The seccomp filter of programs, as a classic BPF program (Linux: Documentation/userspace-api/seccomp_filter.rst): an allow-list, see
 * `system-calls.ts`. ptrace is allowed, because a program sees its own processes only.
 */

/** The CLONE_NEW* flags of clone(2): mounts, cgroup, UTS, IPC, user, pid, network. */
const cloneNamespaces = 0x7e02_0000;

/** Requests of ioctl(2) that inject input into a terminal: TIOCSTI and TIOCLINUX. */
const typingRequests = [0x5412, 0x541c];

/** Domains of socket(2) that reach beyond the network namespace (AF_VSOCK) or into the kernel's crypto API (AF_ALG). */
const deniedDomains = [40, 38];

/** Arguments of personality(2) that programs may set: Linux, with or without UNAME26, and the query. Others weaken ASLR and mmap. */
const allowedPersonalities = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

const processors = {
  x64: { index: 0, audit: 0xc000_003e },
  arm64: { index: 1, audit: 0xc000_00b7 },
} as const;

/** Instructions of classic BPF (linux/bpf_common.h). */
const load = 0x20;
const jumpEqual = 0x15;
const jumpAnySet = 0x45;
const jumpNotBelow = 0x35;
const answer = 0x06;

const allow = 0x7fff_0000;
const kill = 0x8000_0000;
const errno = (number: number): number => 0x0005_0000 | number;
const EPERM = 1;
const ENOSYS = 38;

/** Offsets in struct seccomp_data; the low half of an argument on these little-endian architectures. */
const numberOffset = 0;
const archOffset = 4;
const argumentOffset = (index: number): number => 16 + 8 * index;

/** x86-64 has a second table of calls above this bit (x32), which would bypass the filter. */
const x32 = 0x4000_0000;

interface Instruction {
  readonly code: number;
  readonly k: number;
  readonly yes?: number;
  readonly no?: number;
}

/** Ranges of consecutive numbers, ascending. */
function rangesOf(numbers: readonly number[]): readonly (readonly [first: number, last: number])[] {
  const ranges: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const range = ranges.at(-1);
    if (range !== undefined && number <= range[1] + 1) range[1] = number;
    else ranges.push([number, number]);
  }
  return ranges;
}

const returns = (k: number): Instruction => ({ code: answer, k });

/** Decides on one call by its number, with instructions that all end in a return. */
const onCall = (k: number, ...then: readonly Instruction[]): readonly Instruction[] => [
  { code: jumpEqual, k, no: then.length },
  ...then,
];

/** Returns `result` if the loaded value is one of `values`. */
const onValues = (values: readonly number[], result: number): readonly Instruction[] =>
  values.flatMap((k): readonly Instruction[] => [{ code: jumpEqual, k, no: 1 }, returns(result)]);

/**
 * The filter for an architecture (Node's name of it), in the format of the kernel and of `bwrap --seccomp`. Undefined for an architecture
 * whose system calls are not known here.
 *
 * Calls through another architecture's table (32-bit programs) kill the program. `clone3` returns ENOSYS: its flags are behind a pointer,
 * which a filter cannot follow, and C libraries fall back to `clone`. So do calls newer than this list; all others return EPERM.
 */
export function seccompFilter(processor: string = process.arch): Buffer | undefined {
  if (processor !== "x64" && processor !== "arm64") return undefined;
  const { index, audit } = processors[processor];
  const allowed = Object.values(allowedCalls).flatMap((numbers) => numbers[index] ?? []);
  const [clone, clone3, ioctl, personality, socket] = (["clone", "clone3", "ioctl", "personality", "socket"] as const).map(
    (name) => checkedCalls[name][index],
  );
  const denied = returns(errno(EPERM));
  const loadArgument = (argument: number): Instruction => ({ code: load, k: argumentOffset(argument) });
  const program: readonly Instruction[] = [
    { code: load, k: archOffset },
    { code: jumpEqual, k: audit, yes: 1 },
    returns(kill),
    { code: load, k: numberOffset },
    ...(processor === "x64" ? [{ code: jumpNotBelow, k: x32, no: 1 }, returns(errno(ENOSYS))] : []),
    ...onCall(clone3 ?? 0, returns(errno(ENOSYS))),
    ...onCall(clone ?? 0, loadArgument(0), { code: jumpAnySet, k: cloneNamespaces, no: 1 }, denied, returns(allow)),
    ...onCall(ioctl ?? 0, loadArgument(1), ...onValues(typingRequests, errno(EPERM)), returns(allow)),
    ...onCall(socket ?? 0, loadArgument(0), ...onValues(deniedDomains, errno(EPERM)), returns(allow)),
    ...onCall(personality ?? 0, loadArgument(0), ...onValues(allowedPersonalities, allow), denied),
    ...rangesOf(allowed).flatMap(([first, last]): readonly Instruction[] => [
      { code: jumpNotBelow, k: first, no: 2 },
      { code: jumpNotBelow, k: last + 1, yes: 1 },
      returns(allow),
    ]),
    { code: jumpNotBelow, k: Math.max(...allowed, clone3 ?? 0) + 1, no: 1 },
    returns(errno(ENOSYS)),
    denied,
  ];
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, { code, k, yes = 0, no = 0 }] of program.entries()) {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(yes, at * 8 + 2);
    bytes.writeUInt8(no, at * 8 + 3);
    bytes.writeUInt32LE(k >>> 0, at * 8 + 4);
  }
  return bytes;
}

/** The same profile in the format of an OCI runtime (config-linux.md, seccomp), which knows the numbers itself. */
export function ociSeccomp(): Readonly<Record<string, unknown>> {
  const action = "SCMP_ACT_ALLOW";
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: EPERM,
    ...(process.arch === "x64" && { architectures: ["SCMP_ARCH_X86_64"] }),
    ...(process.arch === "arm64" && { architectures: ["SCMP_ARCH_AARCH64"] }),
    syscalls: [
      { names: Object.keys(allowedCalls), action },
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
      { names: ["clone"], action, args: [{ index: 0, value: cloneNamespaces, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }] },
      // A request other than the denied ones: conditions of one rule are combined with AND.
      { names: ["ioctl"], action, args: typingRequests.map((value) => ({ index: 1, value, op: "SCMP_CMP_NE" })) },
      { names: ["socket"], action, args: deniedDomains.map((value) => ({ index: 0, value, op: "SCMP_CMP_NE" })) },
      ...allowedPersonalities.map((value) => ({
        names: ["personality"],
        action,
        args: [{ index: 0, value, op: "SCMP_CMP_EQ" }],
      })),
    ],
  };
}
