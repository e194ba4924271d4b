import { cpuPeriodMicros, cpuQuotaMicros } from "../cgroup/cgroup-limits.ts";
import type { Limits } from "../driver.ts";
import type { BindMount } from "../isolation.ts";
import { terminalOptions } from "../bubblewrap/private-user.ts";
import { ociSeccomp, type CallProfile } from "../bubblewrap/seccomp-filter.ts";
import type { UserIds } from "../program/users/user.ts";
import { idRangeSize } from "./id-range.ts";

/** A program for an OCI runtime. */
export interface OciProgram {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly user: UserIds;
  readonly limits: Limits;
  readonly oomScoreAdjustment?: number;
  /** Path of its cgroup in every hierarchy. */
  readonly cgroupsPath: string;
  readonly binds: readonly BindMount[];
  /** Directories in memory with a size limit, which end with the container. */
  readonly limitedFolders?: readonly { readonly target: string; readonly sizeBytes: number }[];
  readonly network: "shared" | "none";
  readonly hostname?: string;
  readonly hasTerminal: boolean;
  /** Whether it sees its own cgroups below `/sys/fs/cgroup`. Only without a range of ids of its own. */
  readonly hasCgroupView?: boolean;
  /** Whether its root can be written. */
  readonly isRootWritable: boolean;
  /** Names as `CAP_CHOWN`. */
  readonly capabilities: readonly string[];
  /** System calls that it may make. Default `standard`. */
  readonly calls?: CallProfile;
  /** First host id of the program's own range of user and group ids, see `id-range.ts`. Default: the host's ids. */
  readonly firstId?: number;
}

/** Capabilities that root expects in an image, without those that reach beyond the container. */
export const imageCapabilities: readonly string[] = [
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_SETGID",
  "CAP_SETUID",
  "CAP_SETPCAP",
  "CAP_NET_BIND_SERVICE",
  "CAP_SYS_CHROOT",
];

/** Files of /proc and /sys that reveal or control the machine rather than the container. */
const maskedPaths = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/sys/firmware",
];
const readonlyPaths = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

const kernelMounts = [
  { destination: "/proc", type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev"] },
  { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "strictatime", "mode=755", "size=65536k"] },
  {
    destination: "/dev/pts",
    type: "devpts",
    source: "devpts",
    options: ["nosuid", "noexec", ...terminalOptions.split(","), "gid=5"],
  },
  { destination: "/dev/shm", type: "tmpfs", source: "shm", options: ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"] },
  { destination: "/dev/mqueue", type: "mqueue", source: "mqueue", options: ["nosuid", "noexec", "nodev"] },
  { destination: "/sys", type: "sysfs", source: "sysfs", options: ["nosuid", "noexec", "nodev", "ro"] },
  { destination: "/run", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", "mode=755", "size=65536k"] },
];

const cgroupMount = {
  destination: "/sys/fs/cgroup",
  type: "cgroup",
  source: "cgroup",
  options: ["nosuid", "noexec", "nodev", "relatime", "ro"],
};

/** Maximum number of files in a directory with a size limit, as in bubblewrap. */
const maxLimitedFiles = 65_536;

/** Limits in the format of the OCI runtime specification (config-linux.md, control groups). */
function resources({ cpuMillis, cpuShares, memoryBytes, pids }: Limits): Readonly<Record<string, unknown>> {
  return {
    devices: [{ allow: false, access: "rwm" }],
    ...((cpuMillis ?? cpuShares) !== undefined && {
      cpu: {
        ...(cpuMillis !== undefined && { quota: cpuQuotaMicros(cpuMillis), period: cpuPeriodMicros }),
        ...(cpuShares !== undefined && { shares: cpuShares }),
      },
    }),
    // An equal limit for memory plus swap disables swap: a program at its limit is killed instead of slowing the machine down.
    ...(memoryBytes !== undefined && { memory: { limit: memoryBytes, swap: memoryBytes } }),
    ...(pids !== undefined && { pids: { limit: pids } }),
  };
}

/** The `process` section: the program, or a command alongside it. */
function ociProcess(
  program: Pick<OciProgram, "command" | "env" | "cwd" | "user" | "capabilities" | "oomScoreAdjustment">,
  terminal = false,
): Readonly<Record<string, unknown>> {
  const { capabilities } = program;
  const sets = { bounding: capabilities, effective: capabilities, permitted: capabilities, ambient: [], inheritable: [] };
  return {
    terminal,
    user: program.user,
    args: program.command,
    env: Object.entries(program.env).map(([name, value]) => `${name}=${value}`),
    cwd: program.cwd,
    capabilities: sets,
    noNewPrivileges: true,
    ...(program.oomScoreAdjustment !== undefined && { oomScoreAdj: program.oomScoreAdjustment }),
  };
}

/** The namespaces of a container, and the ids of its user namespace. */
function isolationOf({ network, firstId, hasCgroupView = false }: OciProgram): Readonly<Record<string, unknown>> {
  const namespaces: object[] = [{ type: "pid" }, { type: "ipc" }, { type: "uts" }, { type: "mount" }];
  if (network === "none") namespaces.push({ type: "network" });
  if (hasCgroupView) namespaces.push({ type: "cgroup" });
  if (firstId === undefined) return { namespaces };
  const mappings = [{ containerID: 0, hostID: firstId, size: idRangeSize }];
  return { namespaces: [...namespaces, { type: "user" }], uidMappings: mappings, gidMappings: mappings };
}

/**
 * The kernel's file systems. A program with a private user has no /sys, which describes the machine, and can write only where its disk or
 * memory limit applies.
 */
function kernelMountsOf({ firstId, hasCgroupView = false }: OciProgram): typeof kernelMounts {
  if (firstId === undefined) return hasCgroupView ? [...kernelMounts, cgroupMount] : kernelMounts;
  return kernelMounts
    .filter(({ destination }) => destination !== "/sys")
    .map((mount) => (["/dev", "/run"].includes(mount.destination) ? { ...mount, options: [...mount.options, "ro"] } : mount));
}

/** The configuration (config.json) of a container, OCI runtime specification 1.0. Its root is `rootfs` in the bundle. */
export function ociSpec(program: OciProgram): Readonly<Record<string, unknown>> {
  // Inside a user namespace, a mount cannot be made read-only without the options that its source has.
  const safety = program.firstId === undefined ? [] : ["nosuid", "nodev"];
  return {
    ociVersion: "1.0.2",
    process: ociProcess(program, program.hasTerminal),
    root: { path: "rootfs", readonly: !program.isRootWritable },
    ...(program.hostname !== undefined && { hostname: program.hostname }),
    mounts: [
      ...kernelMountsOf(program),
      ...program.binds.map(({ source, target, isWritable }) => ({
        destination: target,
        type: "bind",
        source,
        options: ["rbind", "rprivate", ...safety, isWritable === true ? "rw" : "ro"],
      })),
      ...(program.limitedFolders ?? []).map(({ target, sizeBytes }) => ({
        destination: target,
        type: "tmpfs",
        source: "tmpfs",
        options: ["nosuid", "nodev", "mode=1777", `size=${sizeBytes}`, `nr_inodes=${maxLimitedFiles}`],
      })),
    ],
    linux: {
      cgroupsPath: program.cgroupsPath,
      resources: resources(program.limits),
      ...isolationOf(program),
      maskedPaths,
      readonlyPaths,
      seccomp: ociSeccomp(program.calls),
    },
  };
}
