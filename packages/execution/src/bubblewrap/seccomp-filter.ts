/*
 * The system calls that a program in bubblewrap may not make, as a classic BPF program (Linux: Documentation/userspace-api/
 * seccomp_filter.rst). The list follows what Docker's and Podman's default profiles keep from a container without capabilities:
 * mounts, other namespaces, modules, kexec, keys, BPF, perf, clocks, io_uring. Everything else is allowed, ptrace too: a program
 * sees its own processes only.
 */

/** Numbers of a system call: x86-64 (arch/x86/entry/syscalls/syscall_64.tbl), arm64 (include/uapi/asm-generic/unistd.h). */
type Numbers = readonly [x64: number | undefined, arm64: number | undefined];

/** Refused with EPERM. */
export const deniedCalls: Readonly<Record<string, Numbers>> = {
  _sysctl: [156, undefined],
  acct: [163, 89],
  add_key: [248, 217],
  bpf: [321, 280],
  chroot: [161, 51],
  clock_adjtime: [305, 266],
  clock_settime: [227, 112],
  create_module: [174, undefined],
  delete_module: [176, 106],
  fanotify_init: [300, 262],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  get_kernel_syms: [177, undefined],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  ioperm: [173, undefined],
  iopl: [172, undefined],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  lookup_dcookie: [212, 18],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  name_to_handle_at: [303, 264],
  nfsservctl: [180, 42],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  perf_event_open: [298, 241],
  pivot_root: [155, 41],
  query_module: [178, undefined],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  reboot: [169, 142],
  request_key: [249, 218],
  setdomainname: [171, 162],
  sethostname: [170, 161],
  setns: [308, 268],
  settimeofday: [164, 170],
  swapoff: [168, 225],
  swapon: [167, 224],
  sysfs: [139, undefined],
  syslog: [103, 116],
  umount2: [166, 39],
  unshare: [272, 97],
  uselib: [134, undefined],
  userfaultfd: [323, 282],
  ustat: [136, undefined],
  vhangup: [153, 58],
};

/** Looked at more closely: new namespaces, and words put into another's terminal. */
export const checkedCalls = { clone: [56, 220], clone3: [435, 435], ioctl: [16, 29] } as const;

/** Every CLONE_NEW* flag of clone(2) but CLONE_NEWTIME, which clone does not take: mounts, cgroup, UTS, IPC, user, pid, network. */
const cloneNamespaces = 0x7e02_0000;

/** The bits of {@link cloneNamespaces}. */
const namespaceFlags = [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/** Requests of ioctl(2) that type into a terminal: TIOCSTI and TIOCLINUX. */
const typingRequests = [0x5412, 0x541c];

const processors = {
  x64: { index: 0, audit: 0xc000_003e },
  arm64: { index: 1, audit: 0xc000_00b7 },
} as const;

/** Instructions of classic BPF that are used (linux/bpf_common.h): code, and k. */
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

/** Offsets in struct seccomp_data; low half of an argument on these little-endian processors. */
const numberOffset = 0;
const archOffset = 4;
const argumentOffset = (index: number): number => 16 + 8 * index;

/** x86-64 has a second table of calls above this bit (x32); with it a filter could be gone around. */
const x32 = 0x4000_0000;

interface Instruction {
  readonly code: number;
  readonly k: number;
  readonly yes?: number;
  readonly no?: number;
}

/**
 * The filter for a processor (Node's name of it), in the bytes that the kernel and `bwrap --seccomp` take. Undefined for a
 * processor whose calls are not known here.
 *
 * A call through another processor's table (32-bit programs) ends the program. `clone3` is answered with "not implemented": its
 * flags are behind a pointer, which a filter cannot follow, and C libraries then use `clone`.
 */
export function seccompFilter(processor: string = process.arch): Buffer | undefined {
  if (processor !== "x64" && processor !== "arm64") return undefined;
  const { index, audit } = processors[processor];
  const denied = Object.values(deniedCalls).flatMap((numbers) => numbers[index] ?? []);
  const [clone, clone3, ioctl] = [checkedCalls.clone, checkedCalls.clone3, checkedCalls.ioctl].map((each) => each[index]);
  const returns = (k: number): Instruction => ({ code: answer, k });
  const program: readonly Instruction[] = [
    { code: load, k: archOffset },
    { code: jumpEqual, k: audit, yes: 1 },
    returns(kill),
    { code: load, k: numberOffset },
    ...(processor === "x64" ? [{ code: jumpNotBelow, k: x32, no: 1 }, returns(errno(ENOSYS))] : []),
    ...denied.flatMap((k): readonly Instruction[] => [{ code: jumpEqual, k, no: 1 }, returns(errno(EPERM))]),
    { code: jumpEqual, k: clone3 ?? 0, no: 1 },
    returns(errno(ENOSYS)),
    // Over the four lines of this call when it is another.
    { code: jumpEqual, k: clone ?? 0, no: 4 },
    { code: load, k: argumentOffset(0) },
    { code: jumpAnySet, k: cloneNamespaces, no: 1 },
    returns(errno(EPERM)),
    returns(allow),
    { code: jumpEqual, k: ioctl ?? 0, yes: 1 },
    returns(allow),
    { code: load, k: argumentOffset(1) },
    ...typingRequests.flatMap((k): readonly Instruction[] => [{ code: jumpEqual, k, no: 1 }, returns(errno(EPERM))]),
    returns(allow),
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

/** The same list in the words of an OCI runtime (config-linux.md, seccomp), which knows the numbers by itself. */
export function ociSeccomp(): Readonly<Record<string, unknown>> {
  const refuse = { action: "SCMP_ACT_ERRNO", errnoRet: EPERM };
  return {
    defaultAction: "SCMP_ACT_ALLOW",
    ...(process.arch === "x64" && { architectures: ["SCMP_ARCH_X86_64"] }),
    ...(process.arch === "arm64" && { architectures: ["SCMP_ARCH_AARCH64"] }),
    syscalls: [
      { names: Object.keys(deniedCalls), ...refuse },
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
      ...namespaceFlags.map((flag) => ({
        names: ["clone"],
        ...refuse,
        args: [{ index: 0, value: flag, valueTwo: flag, op: "SCMP_CMP_MASKED_EQ" }],
      })),
      ...typingRequests.map((value) => ({ names: ["ioctl"], ...refuse, args: [{ index: 1, value, op: "SCMP_CMP_EQ" }] })),
    ],
  };
}
