import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { ExecutionError } from "../driver.ts";
import type { Driver } from "../driver.ts";
import { FifoPool } from "../io/fifo-pool.ts";
import { describeError } from "../files/file-error.ts";
import type { BindMount } from "../isolation.ts";
import { createDriver } from "../program/supervisor.ts";
import type { DriverOptions } from "../program/supervisor.ts";
import { createContainerdApi, defaultContainerdSocket, failedWith } from "./containerd-api.ts";
import type { ContainerdApi } from "./containerd-api.ts";
import { createContainerdLauncher } from "./containerd-launcher.ts";

/** Where containerd is and which part of it is ours. */
export interface ContainerdOptions {
  /** Default: `/run/containerd/containerd.sock`. */
  readonly socket?: string;
  /** containerd's namespace for programs and images. Default `keelson`. */
  readonly namespace?: string;
  /** What keeps the images' and programs' files. Default `overlayfs`. */
  readonly snapshotter?: string;
}

/** Options of {@link createContainerdDriver}. */
export interface ContainerdDriverOptions extends DriverOptions, ContainerdOptions {
  /** What every program sees besides what its spec says. */
  readonly binds?: readonly BindMount[];
}

/** Default of {@link ContainerdOptions.namespace}. */
export const defaultNamespace = "keelson";

/** Default of {@link ContainerdOptions.snapshotter}. */
export const defaultSnapshotter = "overlayfs";

/** Connects to containerd and makes sure that our namespace is there. Throws `Unsupported` where nothing answers. */
export async function openContainerd(options: ContainerdOptions): Promise<ContainerdApi> {
  const { socket = defaultContainerdSocket, namespace = defaultNamespace } = options;
  const api = createContainerdApi(socket, namespace);
  try {
    await api.namespaces.create({ namespace: { name: namespace } });
  } catch (error) {
    if (!failedWith(error, Code.AlreadyExists)) {
      throw new ExecutionError(
        "Unsupported",
        `containerd does not answer on ${socket}: ${describeError(error)}. Is it installed and running, and may this user use it?`,
        { cause: error },
      );
    }
  }
  return api;
}

/**
 * Runs programs as containers of a containerd on this machine, in a namespace of its own. See {@link Driver} for what holds for
 * every driver.
 *
 * **Root**: the image that `isolation.image` names (see {@link importImage}) or the folder `isolation.root`, both with a writable
 * layer of the program's own; without either this machine's own programs, read-only, as in the `bubblewrap` driver. The work
 * folder is at `/work`, for the machine's own programs at its own path.
 *
 * **Output**: containerd's shim copies it to the log files; it goes on doing so when the supervisor, or containerd, is gone.
 * `mergeOutput` puts both into one file, in the order in which the shim reads them.
 *
 * **Signals**: the program is process 1 of its namespace, which the kernel spares every signal that it does not handle. A signal
 * that would end any other process ends this one too, with the same exit code.
 *
 * **Environment**: the image's, over it the spec's; the runtime adds HOME where it is missing.
 *
 * **Needs** root and containerd 1.6 or newer with runc. **Errors**: `Unsupported` where no containerd answers.
 */
export async function createContainerdDriver(options: ContainerdDriverOptions): Promise<Driver> {
  const api = await openContainerd(options);
  const { clock, random, snapshotter = defaultSnapshotter, binds = [] } = options;
  return createDriver("containerd", options, (dir) =>
    createContainerdLauncher({
      api,
      random,
      now: () => clock.now(),
      snapshotter,
      binds,
      fifos: new FifoPool(join(dir, ".spare"), random),
    }),
  );
}
