import { type Connection, type ConnectionOptions, openConnection } from "./connection.ts";
import type { VolumeInfo as InfoMessage } from "./generated/keelson/sandboxes/v1/volumes_pb.ts";
import { call, isSandboxError, SandboxError } from "./sandbox-error.ts";
import type { CallOptions } from "./sandbox-files.ts";

/** What the server says about a volume. */
export interface VolumeInfo {
  readonly name: string;
  readonly pool: string;
  /** A quantity, such as `1Gi`. */
  readonly size: string;
  /** Its current size, smaller than `size` while it grows; empty until it is created. */
  readonly currentSize: string;
  /** `Pending`, `Ready`, `Away`, `Lost`, `Failed` or `Deleting`. */
  readonly phase: string;
  /** Why it is not ready. */
  readonly message: string;
  /** The agent that has it; empty before it is assigned. */
  readonly agent: string;
  readonly createdAt: Date;
  /** Names of the sandboxes that use it. */
  readonly usedBy: readonly string[];
}

/** Options of `SandboxVolume.create`. */
export interface CreateVolumeOptions extends ConnectionOptions, CallOptions {
  /** Default: `default-pool`. */
  readonly pool?: string;
  /** A quantity, 16Mi to 1Ti. Default: `1Gi`. */
  readonly size?: string;
}

/**
 * Storage that outlives sandboxes. One sandbox at a time can write to it, or several can read it.
 *
 * **Example**
 *
 * ```ts
 * const data = await SandboxVolume.create("data", { size: "256Mi" });
 * await using box = await Sandbox.create({ image: "host", volumes: { "/data": data.name } });
 * ```
 */
export class SandboxVolume {
  readonly name: string;
  readonly #connection: Connection;

  private constructor(connection: Connection, name: string) {
    this.name = name;
    this.#connection = connection;
  }

  /** Creates a volume, which sandboxes can use when this resolves. **Errors**: `AlreadyExists`; `ResourceExhausted` if no agent has room. */
  static async create(name: string, options: CreateVolumeOptions = {}): Promise<SandboxVolume> {
    const { pool = "default-pool", size = "1Gi", signal } = options;
    const connection = await openConnection(options);
    const request = { volumeName: name, namespace: connection.namespace, poolRef: pool, size };
    await call(signal, () => connection.volumes.createVolume(request, { ...(signal && { signal }) }));
    return new SandboxVolume(connection, name);
  }

  /** Lists the volumes of a namespace. */
  static async list(options: ConnectionOptions & CallOptions = {}): Promise<readonly VolumeInfo[]> {
    return listOf(await openConnection(options), options);
  }

  /** A volume that exists. **Errors**: `NotFound`. */
  static async connect(name: string, options: ConnectionOptions & CallOptions = {}): Promise<SandboxVolume> {
    const connection = await openConnection(options);
    const found = (await listOf(connection, options)).some((each) => each.name === name);
    if (!found) throw new SandboxError("NotFound", `volume ${name} not found`);
    return new SandboxVolume(connection, name);
  }

  /**
   * Grows the volume, even while sandboxes use it. Resolves when it has the size, a quantity. **Errors**: `InvalidArgument` if it would shrink;
   * `ResourceExhausted` if its agent has no room, which tries again later; `FailedPrecondition` while the agent does not report.
   */
  async resize(size: string, { signal }: CallOptions = {}): Promise<VolumeInfo> {
    const request = { volumeName: this.name, namespace: this.#connection.namespace, size };
    return infoOf(await call(signal, () => this.#connection.volumes.resizeVolume(request, { ...(signal && { signal }) })));
  }

  /** Deletes the volume with its files. Succeeds if it does not exist. **Errors**: `FailedPrecondition` while sandboxes use it. */
  async delete({ signal }: CallOptions = {}): Promise<void> {
    const request = { volumeName: this.name, namespace: this.#connection.namespace };
    try {
      await call(signal, () => this.#connection.volumes.deleteVolume(request, { ...(signal && { signal }) }));
    } catch (error) {
      if (!isSandboxError(error, "NotFound")) throw error;
    }
  }
}

async function listOf({ volumes, namespace }: Connection, { signal }: CallOptions): Promise<readonly VolumeInfo[]> {
  const { items } = await call(signal, () => volumes.listVolumes({ namespace }, { ...(signal && { signal }) }));
  return items.map(infoOf);
}

function infoOf(info: InfoMessage): VolumeInfo {
  const { volumeName: name, poolRef: pool, size, currentSize, phase, message, agentPod: agent, createdAt, usedBy } = info;
  return { ...{ name, pool, size, currentSize, phase, message, agent, usedBy }, createdAt: new Date(Number(createdAt) * 1000) };
}
