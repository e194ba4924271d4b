import { allowedCalls, checkedCalls } from "./system-calls.ts";
import { type DeniedArgument, deniedArguments, missingCalls } from "./untrusted-calls.ts";

/*
 * The seccomp filter of programs, as a classic BPF program (Linux: Documentation/userspace-api/seccomp_filter.rst): an allow-list, see
 * `system-calls.ts`. ptrace is allowed, because a program sees its own processes only.
 */

/** The CLONE_NEW* flags of clone(2): mounts, cgroup, UTS, IPC, user, pid, network. */
const cloneNamespaces = 0x7e02_0000;

/** Requests of ioctl(2) that inject input into a terminal: TIOCSTI and TIOCLINUX. */
const typingRequests = [0x5412, 0x541c];

/**
 * What programs may do. `standard`: the calls of the list, and sockets of every domain but AF_VSOCK, which reaches beyond the network
 * namespace, and AF_ALG, the kernel's crypto API. `untrusted`: also none of `untrusted-calls.ts`, and only Unix sockets, TCP, UDP, ICMP, and
 * netlink to query addresses. Other sockets can load kernel modules, and netlink sockets between programs queue data in kernel memory that
 * no cgroup counts.
 */
export type CallProfile = "standard" | "untrusted";

const domains = { unix: 1, inet: 2, netlink: 16, inet6: 10, alg: 38, vsock: 40 } as const;

/** Domains that are denied with {@link CallProfile} `standard`. */
const deniedDomains: readonly number[] = [domains.vsock, domains.alg];

/** All other domains that Linux knows (AF_MAX is 46). */
const otherDomains = Array.from({ length: 46 }, (_, domain) => domain).filter((domain) => !deniedDomains.includes(domain));

/** The type of a socket without SOCK_NONBLOCK and SOCK_CLOEXEC. */
const socketTypeMask = 0xf;

/** The Internet's protocols by type: SOCK_STREAM (any, TCP, MPTCP), SOCK_DGRAM (any, UDP, ICMP, ICMPv6). */
const internetProtocols = [
  { type: 1, protocols: [0, 6, 262] },
  { type: 2, protocols: [0, 17, 1, 58] },
] as const;

/** The protocol of netlink that queries addresses and routes. */
const netlinkRoute = 0;

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
const and = 0x54;
const answer = 0x06;

const allow = 0x7fff_0000;
const kill = 0x8000_0000;
const errno = (number: number): number => 0x0005_0000 | number;
const EPERM = 1;
const ENOSYS = 38;
/** The kernel's answer without this protocol. Programs that can do without auditing, such as those of PAM, then do. */
const EPROTONOSUPPORT = 93;

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

const loadArgument = (argument: number): Instruction => ({ code: load, k: argumentOffset(argument) });

/** Decides on a call of socket(2). */
function socketInstructions(profile: CallProfile): readonly Instruction[] {
  if (profile === "standard") return [loadArgument(0), ...onValues(deniedDomains, errno(EPERM)), returns(allow)];
  const ofType = internetProtocols.flatMap(({ type, protocols }) =>
    onCall(type, loadArgument(2), ...onValues(protocols, allow), returns(errno(EPERM))),
  );
  const internet = [loadArgument(1), { code: and, k: socketTypeMask }, ...ofType, returns(errno(EPERM))];
  return [
    loadArgument(0),
    ...onValues([domains.unix], allow),
    ...onCall(domains.netlink, loadArgument(2), ...onValues([netlinkRoute], allow), returns(errno(EPROTONOSUPPORT))),
    // Skips the denial of all other domains.
    { code: jumpEqual, k: domains.inet, yes: 2 },
    { code: jumpEqual, k: domains.inet6, yes: 1 },
    returns(errno(EPERM)),
    ...internet,
  ];
}

/** Decides on a call of socketpair(2), which the kernel supports for Unix sockets; other domains only load modules. */
const socketpairInstructions = (profile: CallProfile): readonly Instruction[] =>
  profile === "standard" ? [returns(allow)] : [loadArgument(0), ...onValues([domains.unix], allow), returns(errno(EPERM))];

/** Decides on a call with a {@link DeniedArgument}. */
function argumentInstructions({ argument, values = [], bits, when, errno: number }: DeniedArgument): readonly Instruction[] {
  const denied = returns(errno(number));
  const check: readonly Instruction[] = [
    loadArgument(argument),
    ...onValues(values, errno(number)),
    ...(bits === undefined ? [] : [{ code: jumpAnySet, k: bits, no: 1 }, denied]),
  ];
  const condition =
    when === undefined ? [] : [loadArgument(when.argument), { code: jumpEqual, k: when.value, no: check.length }];
  return [...condition, ...check, returns(allow)];
}

/** Decides on the calls that untrusted programs may not make. */
const untrustedInstructions = (index: 0 | 1): readonly Instruction[] => [
  ...missingCalls.flatMap((name) => onCall(allowedCalls[name]?.[index] ?? -1, returns(errno(ENOSYS)))),
  ...deniedArguments.flatMap((each) => onCall(allowedCalls[each.call]?.[index] ?? -1, ...argumentInstructions(each))),
];

/**
 * The filter for an architecture (Node's name of it), in the format of the kernel and of `bwrap --seccomp`. Undefined for an architecture
 * whose system calls are not known here.
 *
 * Calls through another architecture's table (32-bit programs) kill the program. `clone3` returns ENOSYS: its flags are behind a pointer,
 * which a filter cannot follow, and C libraries fall back to `clone`. So do calls newer than this list; all others return EPERM.
 */
export function seccompFilter(processor: string = process.arch, profile: CallProfile = "standard"): Buffer | undefined {
  if (processor !== "x64" && processor !== "arm64") return undefined;
  const { index, audit } = processors[processor];
  const allowed = Object.values(allowedCalls).flatMap((numbers) => numbers[index] ?? []);
  const numberOf = (name: keyof typeof checkedCalls): number => checkedCalls[name][index];
  const clone3 = numberOf("clone3");
  const denied = returns(errno(EPERM));
  const program: readonly Instruction[] = [
    { code: load, k: archOffset },
    { code: jumpEqual, k: audit, yes: 1 },
    returns(kill),
    { code: load, k: numberOffset },
    ...(processor === "x64" ? [{ code: jumpNotBelow, k: x32, no: 1 }, returns(errno(ENOSYS))] : []),
    ...onCall(clone3, returns(errno(ENOSYS))),
    ...onCall(numberOf("clone"), loadArgument(0), { code: jumpAnySet, k: cloneNamespaces, no: 1 }, denied, returns(allow)),
    ...onCall(numberOf("ioctl"), loadArgument(1), ...onValues(typingRequests, errno(EPERM)), returns(allow)),
    ...onCall(numberOf("socket"), ...socketInstructions(profile)),
    ...onCall(numberOf("socketpair"), ...socketpairInstructions(profile)),
    ...onCall(numberOf("personality"), loadArgument(0), ...onValues(allowedPersonalities, allow), denied),
    ...(profile === "untrusted" ? untrustedInstructions(index) : []),
    ...rangesOf(allowed).flatMap(([first, last]): readonly Instruction[] => [
      { code: jumpNotBelow, k: first, no: 2 },
      { code: jumpNotBelow, k: last + 1, yes: 1 },
      returns(allow),
    ]),
    { code: jumpNotBelow, k: Math.max(...allowed, clone3) + 1, no: 1 },
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

/** A condition of a rule (OCI runtime specification, config-linux.md, seccomp). */
interface Condition {
  readonly index: number;
  readonly op: "SCMP_CMP_EQ" | "SCMP_CMP_NE" | "SCMP_CMP_MASKED_EQ";
  readonly value: number;
  readonly valueTwo?: number;
}

const equals = (index: number, value: number): Condition => ({ index, value, op: "SCMP_CMP_EQ" });

const masked = (index: number, mask: number, value: number): Condition => ({
  index,
  value: mask,
  valueTwo: value,
  op: "SCMP_CMP_MASKED_EQ",
});

/**
 * Conditions on an argument of 32 bits of which one holds unless it is one of `values`. SCMP_CMP_NE would not do: it compares all 64 bits of
 * a register, of which the kernel ignores the upper half, and runc takes two conditions on an argument as alternatives.
 */
function differsFrom(index: number, values: readonly number[], bit = 31, prefix = 0, mask = 0): readonly Condition[] {
  if (bit < 0) return [];
  return [0, 1].flatMap((digit) => {
    const part = (prefix + digit * 2 ** bit) >>> 0;
    const partMask = (mask + 2 ** bit) >>> 0;
    const left = values.filter((value) => (value & partMask) >>> 0 === part);
    return left.length === 0 ? [masked(index, partMask, part)] : differsFrom(index, left, bit - 1, part, partMask);
  });
}

interface OciRule {
  readonly names: readonly string[];
  readonly action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";
  readonly errnoRet?: number;
  readonly args?: readonly Condition[];
}

/** Rules of a call, of which one allows it. Each has at most one condition per argument. */
const allowIf = (name: string, ...alternatives: readonly (readonly Condition[])[]): readonly OciRule[] =>
  alternatives.map((args) => ({ names: [name], action: "SCMP_ACT_ALLOW", args }));

function socketRules(profile: CallProfile): readonly OciRule[] {
  if (profile === "standard")
    return [
      ...allowIf("socket", ...otherDomains.map((domain) => [equals(0, domain)])),
      { names: ["socketpair"], action: "SCMP_ACT_ALLOW" },
    ];
  const internet = [domains.inet, domains.inet6].flatMap((domain) =>
    internetProtocols.flatMap(({ type, protocols }) =>
      protocols.map((protocol) => [equals(0, domain), masked(1, socketTypeMask, type), equals(2, protocol)]),
    ),
  );
  const isOtherNetlink: readonly Condition[] = [
    equals(0, domains.netlink),
    { index: 2, value: netlinkRoute, op: "SCMP_CMP_NE" },
  ];
  return [
    ...allowIf("socket", [equals(0, domains.unix)], [equals(0, domains.netlink), equals(2, netlinkRoute)], ...internet),
    { names: ["socket"], action: "SCMP_ACT_ERRNO", errnoRet: EPROTONOSUPPORT, args: isOtherNetlink },
    ...allowIf("socketpair", [equals(0, domains.unix)]),
  ];
}

/** Rules that untrusted programs have instead of those that allow the calls. */
const untrustedRules = (): readonly OciRule[] => [
  ...missingCalls.map((name): OciRule => ({ names: [name], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS })),
  ...deniedArguments.flatMap(({ call, argument, values, bits, when, errno: errnoRet }): readonly OciRule[] => {
    const others = [
      ...(values === undefined ? [] : differsFrom(argument, values)),
      ...(bits === undefined ? [] : [masked(argument, bits, 0)]),
      ...(when === undefined ? [] : differsFrom(when.argument, [when.value])),
    ];
    const denied = values?.map(
      (value): OciRule => ({
        ...{ names: [call], action: "SCMP_ACT_ERRNO", errnoRet },
        args: [equals(argument, value)],
      }),
    );
    return [...allowIf(call, ...others.map((condition) => [condition])), ...(errnoRet === EPERM ? [] : (denied ?? []))];
  }),
];

/** The same profile in the format of an OCI runtime (config-linux.md, seccomp), which knows the numbers itself. */
export function ociSeccomp(profile: CallProfile = "standard"): Readonly<Record<string, unknown>> {
  const untrusted = profile === "untrusted" ? untrustedRules() : [];
  const decided = new Set(untrusted.flatMap(({ names }) => names));
  const rules: readonly OciRule[] = [
    { names: Object.keys(allowedCalls).filter((name) => !decided.has(name)), action: "SCMP_ACT_ALLOW" },
    ...untrusted,
    { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
    ...allowIf("clone", [masked(0, cloneNamespaces, 0)]),
    ...allowIf("ioctl", ...differsFrom(1, typingRequests).map((condition) => [condition])),
    ...socketRules(profile),
    ...allowIf("personality", ...allowedPersonalities.map((value) => [equals(0, value)])),
  ];
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: EPERM,
    ...(process.arch === "x64" && { architectures: ["SCMP_ARCH_X86_64"] }),
    ...(process.arch === "arm64" && { architectures: ["SCMP_ARCH_AARCH64"] }),
    syscalls: rules,
  };
}
