/*
 * System calls that only an attacker of the kernel makes, as Perl programs: every Debian has Perl, and the `host` image sees it. Each call
 * is valid enough to get past the kernel's own argument checks, so EPERM is the filter's answer.
 */

/** EPERM. */
const notPermitted = 1;
/** EINVAL, ENOSYS and EPROTONOSUPPORT. */
const invalid = 22;
const missing = 38;
const notSupported = 93;

type Numbers = readonly [x64: number, arm64: number];

interface Attempt {
  readonly numbers: Numbers;
  readonly args: string;
  /** The filter's answer. Default: EPERM. */
  readonly answer?: number;
}

const socket: Numbers = [41, 198];
const ioctl: Numbers = [16, 29];
/** Of a register of which the kernel reads the lower half, such as that of a domain. */
const upperHalf = 2 ** 32;

const calls: Readonly<Record<string, Attempt>> = {
  // Without a filter: EFAULT.
  io_uring_setup: { numbers: [425, 425], args: "1, 0" },
  // UFFD_USER_MODE_ONLY, which needs no privilege.
  userfaultfd: { numbers: [323, 282], args: "1" },
  // The id of the session keyring.
  keyctl: { numbers: [250, 219], args: "0, -3, 1" },
  add_key: { numbers: [248, 217], args: '"user", "a", "b", 1, -3' },
  request_key: { numbers: [249, 218], args: '"user", "a", 0, 0' },
  bpf: { numbers: [321, 280], args: "0, 0, 0" },
  perf_event_open: { numbers: [298, 241], args: "0, 0, -1, -1, 0" },
  // CLONE_NEWUSER.
  unshare: { numbers: [272, 97], args: "0x10000000" },
  mount: { numbers: [165, 40], args: '"none", "/tmp", "tmpfs", 0, 0' },
  open_tree: { numbers: [428, 428], args: '-100, "/", 1' },
  fsopen: { numbers: [430, 430], args: '"tmpfs", 0' },
  setns: { numbers: [308, 268], args: "0, 0" },
  pivot_root: { numbers: [155, 41], args: '"/", "/"' },
  open_by_handle_at: { numbers: [304, 265], args: "-100, 0, 0" },
  kexec_load: { numbers: [246, 104], args: "0, 0, 0, 0" },
  init_module: { numbers: [175, 105], args: '0, 0, ""' },
  reboot: { numbers: [169, 142], args: "0, 0, 0, 0" },
  // Contexts of asynchronous I/O, huge pages, and memory for compiled BPF programs: all programs of the machine share them.
  io_setup: { numbers: [206, 0], args: "1, 0", answer: missing },
  "huge pages": { numbers: [9, 222], args: "0, 2097152, 3, 0x40022, -1, 0" },
  "a filter of a socket": { numbers: [54, 208], args: "0, 1, 26, 0, 0" },
  "a filter of system calls": { numbers: [317, 277], args: "1, 0, 0", answer: invalid },
  "a filter of system calls, with prctl": { numbers: [157, 167], args: "22, 2, 0", answer: invalid },
  // TIOCSTI and TIOCLINUX. Without a filter: ENOTTY.
  typing: { numbers: ioctl, args: "0, 0x5412, 0" },
  "typing in a console": { numbers: ioctl, args: "0, 0x541c, 0" },
  "typing, with an upper half": { numbers: ioctl, args: `0, ${upperHalf + 0x5412}, 0` },
  // The hypervisor's sockets.
  vsock: { numbers: socket, args: "40, 1, 0" },
  "vsock, with an upper half": { numbers: socket, args: `${upperHalf + 40}, 1, 0` },
  alg: { numbers: socket, args: "38, 5, 0" },
  tipc: { numbers: socket, args: "30, 2, 0" },
  "pair of tipc": { numbers: [53, 199], args: "30, 2, 0, $pair" },
  // SCTP, which the kernel may load.
  sctp: { numbers: socket, args: "2, 1, 132" },
  "packets in sequence": { numbers: socket, args: "2, 5, 0" },
  // NETLINK_USERSOCK, which queues messages in memory that is not counted.
  "netlink between programs": { numbers: socket, args: "16, 3, 2", answer: notSupported },
};

/** A Perl program that makes each call and prints the names of those that the filter did not reject, with their error number. */
export function dangerousCallsProgram(arch: string = process.arch): string {
  const lines = Object.entries(calls).map(
    ([
      name,
      {
        numbers: [x64, arm64],
        args,
        answer = notPermitted,
      },
    ]) => {
      const number = arch === "arm64" ? arm64 : x64;
      // syscall() does not accept literal strings.
      return `$! = 0; @a = (${args.replace("$pair", '"x" x 8')}); $r = syscall(${number}, @a); print "${name} $r " . ($! + 0) . "\\n" unless $r == -1 && $! == ${answer};`;
    },
  );
  return `${lines.join("\n")}\nprint "done\\n";`;
}

/** A Perl program that tries to trace, read and signal the processes `pids`, and prints what succeeded. */
export function traceProgram(pids: readonly number[], arch: string = process.arch): string {
  const [ptrace, readMemory] = arch === "arm64" ? [117, 270] : [101, 310];
  return [
    `for my $pid (${pids.join(", ")}) {`,
    // PTRACE_ATTACH and PTRACE_SEIZE.
    `  for my $request (16, 0x4206) { print "traced $pid\\n" if syscall(${ptrace}, $request, $pid, 0, 0) == 0; }`,
    `  my $buffer = "\\0" x 16; my $local = pack("QQ", unpack("Q", pack("p", $buffer)), 16); my $remote = pack("QQ", 0x400000, 16);`,
    `  print "read $pid\\n" if syscall(${readMemory}, $pid, $local, 1, $remote, 1, 0) > 0;`,
    `  print "opened $pid\\n" if open(my $memory, "<", "/proc/$pid/mem");`,
    `  print "signalled $pid\\n" if kill(9, $pid);`,
    `}`,
    `print "done\\n";`,
  ].join("\n");
}
