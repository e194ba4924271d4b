/** A program or kernel feature that a part of Keelson uses. */
export interface Requirement {
  readonly name: string;
  /** What does not work without it. */
  readonly neededBy: string;
  /** How to get it. */
  readonly fix: string;
  /** What was found; undefined if it is missing. */
  find(machine: Machine): string | undefined | Promise<string | undefined>;
}

/** What the checks can see of a machine. */
export interface Machine {
  /** `process.versions.node`. */
  readonly nodeVersion: string;
  readonly isRoot: boolean;
  /** The path of a program in `PATH`. */
  findProgram(name: string): string | undefined;
  /** The content of a file; undefined if it cannot be read. */
  read(path: string): string | undefined;
  /** Whether a server accepts connections on a Unix socket. */
  accepts(socketPath: string): Promise<boolean>;
}

const program = (name: string, neededBy: string, packages: string): Requirement => ({
  ...{ name, neededBy, fix: `apt-get install ${packages}` },
  find: (machine) => machine.findProgram(name),
});

const containerdSocket = "/run/containerd/containerd.sock";

/** Everything that `keelson doctor` checks. Without an entry's program, only its part is unavailable. */
const requirements: readonly Requirement[] = [
  {
    name: "Node.js",
    neededBy: "everything",
    fix: "install Node.js 24, or at least 20.19",
    find: ({ nodeVersion }) => (isSupportedNode(nodeVersion) ? nodeVersion : undefined),
  },
  program("kubectl", "working with the cluster from a shell", "kubernetes-client"),
  program("bwrap", "sandboxes, and Pods with runtimeClassName bubblewrap", "bubblewrap"),
  {
    name: "user namespaces",
    neededBy: "bubblewrap without root",
    fix: "sysctl -w user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0, or run keelson as root",
    find: (machine) => (machine.isRoot ? "not needed as root" : userNamespaces(machine)),
  },
  {
    name: "cgroup v2",
    neededBy: "memory, CPU and process limits",
    fix: "boot with systemd.unified_cgroup_hierarchy=1",
    find: ({ read }) => {
      const controllers = read("/sys/fs/cgroup/cgroup.controllers")?.trim();
      return controllers === undefined ? undefined : `controllers ${controllers}`;
    },
  },
  program("ip", "sandboxes with network internet or allowList", "iproute2"),
  program("nft", "sandboxes with network internet or allowList", "nftables"),
  {
    name: "containerd",
    neededBy: "Pods with runtimeClassName containerd, and --sandbox-driver containerd",
    fix: "apt-get install containerd runc, start containerd (systemctl start containerd), and run keelson as root",
    find: async ({ accepts }) => ((await accepts(containerdSocket)) ? containerdSocket : undefined),
  },
  program("redis-server", "middleware with the plugin redis", "redis-server"),
  program("mpiexec", "MPI jobs", "openmpi-bin"),
  program("mpicc", "building MPI programs", "libopenmpi-dev gcc libc6-dev"),
];

/** Result of one requirement. */
export interface Finding {
  readonly name: string;
  readonly neededBy: string;
  /** What was found; absent if it is missing. */
  readonly found?: string;
  /** How to get what is missing. */
  readonly fix?: string;
}

/** Checks all requirements. */
export function examine(machine: Machine): Promise<readonly Finding[]> {
  return Promise.all(
    requirements.map(async ({ name, neededBy, fix, find }) => {
      const found = await find(machine);
      return { name, neededBy, ...(found === undefined ? { fix } : { found }) };
    }),
  );
}

function isSupportedNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 20 || (major === 20 && minor >= 19);
}

function userNamespaces({ read }: Machine): string | undefined {
  const max = Number(read("/proc/sys/user/max_user_namespaces") ?? "0");
  const isRestricted = read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")?.trim() === "1";
  const isDisabled = read("/proc/sys/kernel/unprivileged_userns_clone")?.trim() === "0";
  return max > 0 && !isRestricted && !isDisabled ? `up to ${max}` : undefined;
}
