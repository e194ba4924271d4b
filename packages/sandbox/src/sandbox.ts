import { Command, type CommandInfo, listCommands, type SandboxKey } from "./command.ts";
import { type Connection, type ConnectionOptions, openConnection } from "./connection.ts";
import { type CreateOptions, createRequest } from "./create-options.ts";
import { type ExecOptions, type ExecResult, runCommand, startCommand, type StartOptions } from "./exec.ts";
import type { SandboxInfo as InfoMessage } from "./generated/fastpath/v1/fastpath_pb.ts";
import { call, callStream, isSandboxError, SandboxError } from "./sandbox-error.ts";
import { type CallOptions, SandboxFiles } from "./sandbox-files.ts";

/** What the server says about a sandbox. */
export interface SandboxInfo {
  readonly name: string;
  readonly id: string;
  /** `Pending`, `Creating`, `Running`, `Paused`, `Succeeded`, `Failed`, `Lost`, `Expired` or `Terminating`. */
  readonly phase: string;
  readonly image: string;
  readonly pool: string;
  readonly createdAt: Date;
  /** Undefined: never. */
  readonly expiresAt: Date | undefined;
  /** Addresses of the exposed ports, as `HOST:PORT`. */
  readonly endpoints: readonly string[];
}

/**
 * A sandbox: a program in isolation, with commands alongside it, files and ports.
 *
 * **Example**
 *
 * ```ts
 * await using box = await Sandbox.create({ image: "host" });
 * await box.files.write("main.py", "print(6 * 7)");
 * const { stdout } = await box.exec(["python3", "main.py"], { timeoutMs: 10_000 });
 * ```
 */
export class Sandbox implements AsyncDisposable {
  readonly name: string;
  readonly files: SandboxFiles;
  readonly ports: SandboxPorts;
  readonly #connection: Connection;
  readonly #key: SandboxKey;

  private constructor(connection: Connection, name: string) {
    this.name = name;
    this.#connection = connection;
    this.#key = { sandboxName: name, namespace: connection.namespace };
    this.files = new SandboxFiles(connection, this.#key);
    this.ports = new SandboxPorts(connection, this.#key, (options) => this.info(options));
  }

  /**
   * Creates a sandbox, which runs when this resolves. With `await using` it is deleted at the end of the block.
   *
   * **Errors**: `PoolFull` with `retryAfterMs` if no slot is free.
   */
  static async create(options: CreateOptions): Promise<Sandbox> {
    const { signal } = options;
    const connection = await openConnection(options);
    try {
      const request = createRequest(options, Date.now());
      const created = await call(signal, () => connection.sandboxes.createSandbox(request, { ...(signal && { signal }) }));
      return new Sandbox(connection, created.sandboxName);
    } catch (error) {
      if (!isSandboxError(error, "ResourceExhausted")) throw error;
      const { retryAfterMs } = error;
      throw new SandboxError("PoolFull", error.message, { cause: error, ...(retryAfterMs !== undefined && { retryAfterMs }) });
    }
  }

  /** Connects to a sandbox that exists, by its name or id. **Errors**: `NotFound`. */
  static async connect(nameOrId: string, options: ConnectionOptions & CallOptions = {}): Promise<Sandbox> {
    const connection = await openConnection(options);
    const all = await listOf(connection, options);
    const found = all.find(({ name, id }) => name === nameOrId || id === nameOrId);
    if (found === undefined) throw new SandboxError("NotFound", `sandbox ${nameOrId} not found`);
    return new Sandbox(connection, found.name);
  }

  /** Lists the sandboxes of a namespace. */
  static async list(options: ConnectionOptions & CallOptions = {}): Promise<readonly SandboxInfo[]> {
    return listOf(await openConnection(options), options);
  }

  async info({ signal }: CallOptions = {}): Promise<SandboxInfo> {
    return infoOf(await call(signal, () => this.#connection.sandboxes.getSandbox(this.#key, { ...(signal && { signal }) })));
  }

  /**
   * Runs a command to its end; a text is run by `sh -c`. The command is killed if `signal` aborts. A dropped connection is reopened where
   * the output stopped.
   *
   * **Errors**: `TimedOut` after `timeoutMs`; `CommandFailed` with `check` if the exit code is not 0.
   */
  exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    return runCommand(this.#connection, this.#key, command, options);
  }

  /** Starts a command and returns; a text is run by `sh -c`. */
  start(command: string | readonly string[], options: StartOptions = {}): Promise<Command> {
    return startCommand(this.#connection, this.#key, command, options);
  }

  /** A command that was started before, by its id. */
  command(id: string): Command {
    return new Command(this.#connection, this.#key, id);
  }

  /** The commands that run, and the last ones that have exited. */
  commands({ signal }: CallOptions = {}): Promise<readonly CommandInfo[]> {
    return listCommands(this.#connection, this.#key, signal);
  }

  /** The output of the sandbox's program; with `follow` until it exits. */
  async *logs({ follow = false, signal }: CallOptions & { readonly follow?: boolean } = {}): AsyncGenerator<Uint8Array> {
    const read = () => this.#connection.streams.logs({ ...this.#key, follow }, { ...(signal && { signal }) });
    for await (const { data } of callStream(signal, read)) yield data;
  }

  /** Freezes all processes. Time does not pass until {@link Sandbox.resume}. */
  async pause({ signal }: CallOptions = {}): Promise<void> {
    await call(signal, () => this.#connection.lifecycle.pause(this.#key, { ...(signal && { signal }) }));
  }

  async resume({ signal }: CallOptions = {}): Promise<void> {
    await call(signal, () => this.#connection.lifecycle.resume(this.#key, { ...(signal && { signal }) }));
  }

  /** Changes the lifetime: it ends this long from now; 0: never. **Errors**: `FailedPrecondition` if it has expired. */
  async renew(timeoutMs: number, { signal }: CallOptions = {}): Promise<void> {
    const expiry =
      timeoutMs === 0
        ? ({ case: "expireTimeSeconds", value: 0n } as const)
        : ({ case: "expireInSeconds", value: BigInt(Math.ceil(timeoutMs / 1000)) } as const);
    await call(signal, () => this.#connection.lifecycle.renew({ ...this.#key, expiry }, { ...(signal && { signal }) }));
  }

  /** Stops the sandbox and deletes it. Succeeds if it does not exist. */
  async delete({ signal }: CallOptions = {}): Promise<void> {
    try {
      await call(signal, () => this.#connection.sandboxes.deleteSandbox(this.#key, { ...(signal && { signal }) }));
    } catch (error) {
      if (!isSandboxError(error, "NotFound")) throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete();
  }
}

/** The exposed ports of a sandbox. */
export class SandboxPorts {
  readonly #connection: Connection;
  readonly #key: SandboxKey;
  readonly #info: (options: CallOptions) => Promise<SandboxInfo>;

  /** Use `Sandbox.ports`. */
  constructor(connection: Connection, key: SandboxKey, info: (options: CallOptions) => Promise<SandboxInfo>) {
    this.#connection = connection;
    this.#key = key;
    this.#info = info;
  }

  /**
   * A URL that grants access to an exposed port through the server's HTTP proxy, for clients without credentials. It ends with
   * `expiresInMs` (default: one hour, at most 7 days), and when the sandbox ends or restarts.
   *
   * **Errors**: `InvalidArgument` unless `expiresInMs` is in this range; `FailedPrecondition` if the sandbox does not expose the port or the
   * server has no proxy.
   */
  async url(port: number, { expiresInMs, signal }: CallOptions & { readonly expiresInMs?: number } = {}): Promise<string> {
    if (expiresInMs !== undefined && !(expiresInMs > 0 && Number.isFinite(expiresInMs))) {
      const requirement = expiresInMs > 0 ? "finite" : "greater than 0";
      throw new SandboxError("InvalidArgument", `expiresInMs: ${expiresInMs} must be ${requirement}`);
    }
    // 0 stands for the server's default.
    const request = { ...this.#key, port, expiresInMs: BigInt(Math.ceil(expiresInMs ?? 0)) };
    return (await call(signal, () => this.#connection.ports.createUrl(request, { ...(signal && { signal }) }))).url;
  }

  /** The addresses of all exposed ports, as `HOST:PORT`. */
  async list(options: CallOptions = {}): Promise<readonly string[]> {
    return (await this.#info(options)).endpoints;
  }

  /** The address of one exposed port. **Errors**: `NotFound` if the sandbox does not expose it. */
  async address(port: number, options: CallOptions = {}): Promise<string> {
    const { name, endpoints } = await this.#info(options);
    const found = endpoints.find((endpoint) => endpoint.endsWith(`:${port}`));
    if (found === undefined)
      throw new SandboxError("NotFound", `sandbox ${name} does not expose port ${port}; list it in the ports of create`);
    return found;
  }
}

async function listOf({ sandboxes, namespace }: Connection, { signal }: CallOptions): Promise<readonly SandboxInfo[]> {
  const { items } = await call(signal, () => sandboxes.listSandboxes({ namespace }, { ...(signal && { signal }) }));
  return items.map(infoOf);
}

function infoOf(info: InfoMessage): SandboxInfo {
  return {
    name: info.sandboxName,
    id: info.sandboxId,
    phase: info.phase,
    image: info.image,
    pool: info.poolRef,
    createdAt: new Date(Number(info.createdAt) * 1000),
    expiresAt: info.expireTimeSeconds === 0n ? undefined : new Date(Number(info.expireTimeSeconds) * 1000),
    endpoints: info.endpoints,
  };
}
