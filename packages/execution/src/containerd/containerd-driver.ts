import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { ExecutionError } from "../driver.ts";
import type { ProgramGroup } from "../cgroup/program-group.ts";
import type { Driver } from "../driver.ts";
import { FifoPool } from "../io/fifo-pool.ts";
import { describeError } from "../files/file-error.ts";
import type { BindMount } from "../isolation.ts";
import type { CallProfile } from "../bubblewrap/seccomp-filter.ts";
import { createDriver } from "../program/supervisor.ts";
import type { DriverOptions } from "../program/supervisor.ts";
import { createContainerdApi, defaultContainerdSocket, failedWith } from "./containerd-api.ts";
import type { ContainerdApi } from "./containerd-api.ts";
import { createContainerdLauncher } from "./containerd-launcher.ts";

/** How to reach containerd, and which namespace to use. */
export interface ContainerdOptions {
  /** Default: `/run/containerd/containerd.sock`. */
  readonly socket?: string;
  /** Namespace of programs and images. Default `keelson`. */
  readonly namespace?: string;
  /** Snapshotter of images and programs. Default `overlayfs`. */
  readonly snapshotter?: string;
}

/** Options of {@link createContainerdDriver}. */
export interface ContainerdDriverOptions extends DriverOptions, ContainerdOptions {
  /** Mounted into every program, in addition to its spec's binds. */
  readonly binds?: readonly BindMount[];
  /** Its own cgroup for the programs, see {@link ProgramGroup}. Default: none. */
  readonly group?: ProgramGroup;
  /** System calls that programs may make. Default `standard`. */
  readonly calls?: CallProfile;
  /**
   * Called between the creation of a container and the start of its program, with the program's id and the pid of the process that has its
   * namespaces. If it rejects, the program is not started.
   */
  readonly onCreated?: (id: string, pid: number) => Promise<void>;
}

/** Default of {@link ContainerdOptions.namespace}. */
export const defaultNamespace = "keelson";

/** Default of {@link ContainerdOptions.snapshotter}. */
export const defaultSnapshotter = "overlayfs";

/** Connects to containerd and creates our namespace if needed. Throws `Unsupported` if containerd does not respond. */
export async function openContainerd(options: ContainerdOptions): Promise<ContainerdApi> {
  const { socket = defaultContainerdSocket, namespace = defaultNamespace } = options;
  const api = createContainerdApi(socket, namespace);
  try {
    await api.namespaces.create({ namespace: { name: namespace } });
  } catch (error) {
    if (!failedWith(error, Code.AlreadyExists)) {
      throw new ExecutionError(
        "Unsupported",
        `containerd does not respond on ${socket}: ${describeError(error)}; check that it is running and that this user may access it`,
        { cause: error },
      );
    }
  }
  return api;
}

/**
 * Runs programs as containers of this machine's containerd, in its own namespace. See {@link Driver} for the guarantees of every
 * driver.
 *
 * **Root**: the `isolation.image` image (see {@link openContainerdImages}) or the directory `isolation.root`, with a private writable layer;
 * otherwise this machine's own programs, read-only, as in the `bubblewrap` driver. The work directory is mounted at `/work`, or at its own
 * path for the machine's own programs.
 *
 * **Output**: containerd's shim copies it to the log files, even while the supervisor or containerd is down. `mergeOutput` writes both
 * streams to one file, in the order in which the shim reads them.
 *
 * **Signals**: the program is process 1 of its namespace, to which the kernel delivers only signals that it handles. A signal that would
 * terminate any other process terminates this one too, with the same exit code.
 *
 * **Environment**: the image's, overridden by the spec's; the runtime adds HOME if it is missing.
 *
 * **Needs** root and containerd 1.6 or newer with runc. **Errors**: `Unsupported` if containerd does not respond.
 */
export async function createContainerdDriver(options: ContainerdDriverOptions): Promise<Driver> {
  const api = await openContainerd(options);
  const { clock, random, snapshotter = defaultSnapshotter, binds = [], group, calls, onCreated } = options;
  return createDriver("containerd", options, (dir) =>
    createContainerdLauncher({
      api,
      random,
      now: () => clock.now(),
      snapshotter,
      binds,
      ...(group !== undefined && { group }),
      ...(calls !== undefined && { calls }),
      ...(onCreated !== undefined && { onCreated }),
      fifos: new FifoPool(join(dir, ".spare"), random),
    }),
  );
}
