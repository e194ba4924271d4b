import type { allowedCalls } from "./system-calls.ts";

/*
 * What untrusted programs may not do with system calls that other programs need: take what all programs of the machine share, and what no
 * limit of a cgroup counts.
 */

/** A call that fails if an argument has one of these values, or any of these bits. */
export interface DeniedArgument {
  readonly call: keyof typeof allowedCalls;
  /** Index of the argument, of which the low half is compared. */
  readonly argument: number;
  readonly values?: readonly number[];
  readonly bits?: number;
  /** Only if another argument has this value. */
  readonly when?: { readonly argument: number; readonly value: number };
  readonly errno: number;
}

const EPERM = 1;
/** The kernel's answer without support for filters, which programs that would restrict themselves accept. */
const EINVAL = 22;

/** SOL_SOCKET, and its options that attach a BPF program: SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF and _EBPF. */
const socketLevel = 1;
const attachOptions = [26, 50, 51, 52];

/**
 * - Huge pages (MAP_HUGETLB, MFD_HUGETLB, SHM_HUGETLB) come from a pool that the memory limit does not count.
 * - Compiled BPF programs share `net.core.bpf_jit_limit`. Beyond it no other sandbox could load its filter, and start.
 */
export const deniedArguments: readonly DeniedArgument[] = [
  { call: "mmap", argument: 3, bits: 0x4_0000, errno: EPERM },
  { call: "memfd_create", argument: 1, bits: 0x4, errno: EPERM },
  { call: "shmget", argument: 2, bits: 0x800, errno: EPERM },
  { call: "setsockopt", argument: 2, values: attachOptions, when: { argument: 1, value: socketLevel }, errno: EPERM },
  // PR_SET_SECCOMP, SECCOMP_SET_MODE_FILTER.
  { call: "prctl", argument: 0, values: [22], errno: EINVAL },
  { call: "seccomp", argument: 0, values: [1], errno: EINVAL },
];

/** Calls that fail as in a kernel without them. Contexts of asynchronous I/O share `fs.aio-max-nr`. */
export const missingCalls: readonly (keyof typeof allowedCalls)[] = ["io_setup"];
