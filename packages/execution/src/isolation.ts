import { isAbsolute, normalize } from "node:path";

/** A directory or file of the machine that is mounted into a program's root. */
export interface BindMount {
  readonly source: string;
  readonly target: string;
  /** Default: read-only. */
  readonly isWritable?: boolean;
}

/**
 * What a program of the `bubblewrap` and `containerd` drivers can see of the machine. The `process` driver rejects programs with
 * isolation rather than run them without it.
 */
export interface Isolation {
  /** Directory with an unpacked image, which becomes the read-only root. Default: the machine's own `/usr` with a generated `/etc`. */
  readonly root?: string;
  /** Name of an image of the driver (`containerd`), whose files become the root. Cannot be combined with `root`. */
  readonly image?: string;
  /** `containerd`: makes the root read-only, as it always is in `bubblewrap`. Default: writable. */
  readonly isRootReadOnly?: boolean;
  /**
   * `bubblewrap`: lets the program write to `root`, which must be its own directory, not the root of a tmpfs. Missing mount points are
   * created in it. Default: read-only.
   */
  readonly isRootWritable?: boolean;
  /**
   * `bubblewrap`: values of kernel parameters of the program's IPC namespace, by path below `/proc/sys`: `kernel/shm_rmid_forced`. Needs
   * root. Default: the kernel's.
   */
  readonly ipcParameters?: Readonly<Record<string, string>>;
  /**
   * `containerd`: what runs the program. `runsc` is gVisor, whose kernel serves the program's system calls: it sees no /proc of the machine,
   * and its files are not accessible from outside. Default: `runc`.
   */
  readonly runtime?: "runc" | "runsc";
  /** Additional mounts. */
  readonly binds?: readonly BindMount[];
  /**
   * `bubblewrap`: paths of devices below `/dev`, which the program gets at the same paths in addition to `null`, `zero`, `full`, `random`,
   * `urandom` and `tty`. The program's user still needs their permissions.
   */
  readonly devices?: readonly string[];
  /** `shared`: the machine's network, including loopback. `none`: only its own loopback interface. Default: `shared`. */
  readonly network?: "shared" | "none";
  /**
   * `bubblewrap`: path of a network namespace, such as `/run/netns/name`, that the program joins instead of getting an empty one. Needs
   * root, and `network: "none"`.
   */
  readonly networkNamespace?: string;
  /**
   * Runs the program with user ids of its own, which no other program or file of the machine has. Its work directory is at `/work`, and its
   * root is read-only. With `bubblewrap` it appears inside as root without any capability, unless `user` names another; a supervisor that
   * is not root runs programs with its own id. With `containerd` it has a user namespace with 65,536 ids, in which an image's users exist.
   */
  readonly hasPrivateUser?: boolean;
  /** Programs with the same scope share one private user id, so that they can share files. Default: an id per program. */
  readonly userScope?: string;
  /** Host name that the program sees. Default: the machine's. */
  readonly hostname?: string;
  /**
   * Shows the program's own cgroups, read-only, below `/sys/fs/cgroup`, without their parents. Needs root, and with `containerd` a program
   * without a private user. Default: it sees none.
   */
  readonly hasCgroupView?: boolean;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isPath = (value: unknown): value is string =>
  typeof value === "string" && isAbsolute(value) && !value.includes("\0") && normalize(value) === value;

const isParameters = (value: unknown): boolean =>
  isRecord(value) &&
  Object.entries(value).every(
    ([path, text]) => /^(kernel|fs\/mqueue)\/[a-z_]+$/.test(path) && typeof text === "string" && !/[\n\0]/.test(text),
  );

/** Validates the isolation of a spec. Returns an error that starts with the field's name. */
export function isolationProblem(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (!isRecord(value)) return "isolation: must be an object";
  const { root, image, binds, network, hostname, isRootReadOnly, hasPrivateUser, userScope } = value;
  if (hasPrivateUser !== undefined && typeof hasPrivateUser !== "boolean") return "isolation.hasPrivateUser: must be a boolean";
  if (userScope !== undefined && typeof userScope !== "string") return "isolation.userScope: must be a string";
  if (root !== undefined && !isPath(root)) return "isolation.root: must be an absolute path without .. in it";
  if (image !== undefined && !(typeof image === "string" && /^[\w][-\w./:@+]{0,254}$/.test(image))) {
    return "isolation.image: must be the name of an image";
  }
  if (image !== undefined && root !== undefined) return "isolation.image: cannot be set together with isolation.root";
  if (network !== undefined && network !== "shared" && network !== "none") return "isolation.network: must be shared or none";
  const { networkNamespace } = value;
  if (networkNamespace !== undefined && !(isPath(networkNamespace) && network === "none")) {
    return "isolation.networkNamespace: must be an absolute path, together with network none";
  }
  if (hostname !== undefined && !(typeof hostname === "string" && /^[A-Za-z0-9]([-.A-Za-z0-9]{0,62})$/.test(hostname))) {
    return "isolation.hostname: must be a host name of at most 63 characters";
  }
  if (value.hasCgroupView !== undefined && typeof value.hasCgroupView !== "boolean") {
    return "isolation.hasCgroupView: must be true or false";
  }
  if (isRootReadOnly !== undefined && typeof isRootReadOnly !== "boolean") {
    return "isolation.isRootReadOnly: must be true or false";
  }
  if (value.runtime !== undefined && value.runtime !== "runc" && value.runtime !== "runsc")
    return "isolation.runtime: must be runc or runsc";
  const { isRootWritable, ipcParameters } = value;
  if (ipcParameters !== undefined && !isParameters(ipcParameters)) {
    return "isolation.ipcParameters: must be lines of text by path below /proc/sys/kernel or /proc/sys/fs/mqueue";
  }
  if (isRootWritable !== undefined && typeof isRootWritable !== "boolean") {
    return "isolation.isRootWritable: must be true or false";
  }
  if (isRootWritable === true && (root === undefined || isRootReadOnly === true)) {
    return "isolation.isRootWritable: requires isolation.root, and excludes isolation.isRootReadOnly";
  }
  const { devices } = value;
  if (devices !== undefined && !(Array.isArray(devices) && devices.every((path) => isPath(path) && path.startsWith("/dev/")))) {
    return "isolation.devices: must be absolute paths below /dev without .. in them";
  }
  if (binds === undefined) return undefined;
  if (!Array.isArray(binds)) return "isolation.binds: must be a list";
  for (const [index, bind] of binds.entries()) {
    const field = `isolation.binds[${index}]`;
    if (!isRecord(bind)) return `${field}: must be an object`;
    if (!isPath(bind.source)) return `${field}.source: must be an absolute path without .. in it`;
    if (!isPath(bind.target) || bind.target === "/") return `${field}.target: must be an absolute path without .. in it, not /`;
  }
  return undefined;
}
