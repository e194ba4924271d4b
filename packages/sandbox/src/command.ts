import { Code, ConnectError } from "@connectrpc/connect";
import type { Connection } from "./connection.ts";
import { type ProcessInfo, ProcessState } from "./generated/keelson/sandboxes/v1/processes_pb.ts";
import { call, SandboxError, toSandboxError } from "./sandbox-error.ts";

/** A command that a sandbox runs alongside its program. */
export interface CommandInfo {
  readonly id: string;
  readonly command: readonly string[];
  readonly state: "running" | "exited" | "timedOut" | "abandoned";
  /** 128 + n if a signal ended it. Undefined while it runs. */
  readonly exitCode: number | undefined;
  readonly startedAt: Date;
}

/** A part of the output of a command. */
export interface OutputChunk {
  readonly stream: "stdout" | "stderr";
  readonly data: Uint8Array;
  /** Position after this part in both outputs together, in bytes. Pass it to {@link Command.output} to continue. */
  readonly nextOffset: number;
}

/** Identifies a sandbox in calls. */
export interface SandboxKey {
  readonly sandboxName: string;
  readonly namespace: string;
}

/** Attempts to continue an output whose connection broke, after 100, 200, 400 ... ms. */
const maxReconnects = 6;
const firstReconnectMs = 100;

/** Input per call. */
const maxInputBytes = 256 * 1024;

/** A command in a sandbox: its output, input and end. */
export class Command {
  readonly id: string;
  readonly #connection: Connection;
  readonly #key: SandboxKey;
  /** Position of the next input. Undefined until the server has reported it. */
  #inputBytes: number | undefined;
  /** Settles after the last write. Concurrent ones would use the same position. */
  #lastInput: Promise<unknown> = Promise.resolve();

  /** Use `Sandbox.start` or `Sandbox.command`. `inputBytes` is the input that it has accepted, if known. */
  constructor(connection: Connection, key: SandboxKey, id: string, inputBytes?: number) {
    this.#connection = connection;
    this.#key = key;
    this.id = id;
    this.#inputBytes = inputBytes;
  }

  /**
   * Follows the output from `offset` on until the command has exited; returns how. After a dropped connection it continues by itself.
   *
   * **Errors**: `OutputLost` if a part is no longer available, `TimedOut` if the command exceeded its `timeoutMs`.
   */
  async *output({ offset = 0, signal }: OutputOptions = {}): AsyncGenerator<OutputChunk, CommandInfo> {
    let position = offset;
    for (let failures = 0; ; ) {
      try {
        for await (const { output } of this.#connection.processes.output(
          { ...this.#key, processId: this.id, offset: BigInt(position) },
          { ...(signal && { signal }) },
        )) {
          failures = 0;
          if (output.case === "stdout" || output.case === "stderr") {
            position += output.value.length;
            yield { stream: output.case, data: output.value, nextOffset: position };
          } else if (output.case === "lostBytes")
            throw new SandboxError(
              "OutputLost",
              `${output.value} bytes of output from offset ${position} are no longer available`,
            );
          else if (output.case === "exit") return infoOf(output.value);
        }
        throw new ConnectError("the output ended before the command exited", Code.Unavailable);
      } catch (error) {
        const isLost = error instanceof ConnectError && error.code === Code.Unavailable;
        if (!isLost || signal?.aborted || failures >= maxReconnects) throw toSandboxError(error, signal);
        await pause(firstReconnectMs * 2 ** failures, signal);
        failures += 1;
      }
    }
  }

  /** Reads the output to its end and returns how the command exited. */
  async wait(options: { readonly signal?: AbortSignal } = {}): Promise<CommandInfo> {
    const output = this.output(options);
    for (;;) {
      const next = await output.next();
      if (next.done) return next.value;
    }
  }

  /** Writes standard input, after earlier writes. Resolves when the command has room for it. */
  async write(data: string | Uint8Array, { signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    await this.#inOrder(async () => {
      const start = this.#inputBytes ?? (await this.#input(0, { data: new Uint8Array() }, signal));
      for (let position = start; position < start + bytes.length; ) {
        const from = position - start;
        position = await this.#input(position, { data: bytes.subarray(from, from + maxInputBytes) }, signal);
      }
    });
  }

  /** Ends standard input, after earlier writes. */
  async closeInput({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    await this.#inOrder(() => this.#input(this.#inputBytes ?? 0, { data: new Uint8Array(), end: true }, signal));
  }

  /** Sends a signal, such as `SIGTERM`, to the process group of the command. */
  async signal(name: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const request = { ...this.#key, processId: this.id, signal: name };
    await call(signal, () => this.#connection.processes.signal(request, { ...(signal && { signal }) }));
  }

  /** Kills the command and everything that it has started. */
  kill(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    return this.signal("SIGKILL", options);
  }

  /** Changes the size of its terminal. */
  async resize(
    size: { readonly columns: number; readonly rows: number },
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    const { signal } = options;
    const request = { ...this.#key, processId: this.id, terminal: size };
    await call(signal, () => this.#connection.processes.resize(request, { ...(signal && { signal }) }));
  }

  async #inOrder(write: () => Promise<unknown>): Promise<void> {
    const written = this.#lastInput.then(write);
    this.#lastInput = written.catch(() => {});
    await written;
  }

  /** Writes input at a position. Returns the next position. */
  async #input(
    position: number,
    input: { readonly data: Uint8Array; readonly end?: boolean },
    signal: AbortSignal | undefined,
  ): Promise<number> {
    const request = { ...this.#key, ...input, processId: this.id, offset: BigInt(position) };
    // Unknown until the answer arrives: the input of a call that fails may have been accepted.
    this.#inputBytes = undefined;
    const answer = await call(signal, () => this.#connection.processes.writeInput(request, { ...(signal && { signal }) }));
    const accepted = Number(answer.acceptedBytes);
    this.#inputBytes = accepted;
    return accepted;
  }
}

/** Options of {@link Command.output}. */
export interface OutputOptions {
  /** Position in the output, in bytes. Default: the start. */
  readonly offset?: number;
  readonly signal?: AbortSignal;
}

const states: Partial<Record<ProcessState, CommandInfo["state"]>> = {
  [ProcessState.EXITED]: "exited",
  [ProcessState.TIMED_OUT]: "timedOut",
  [ProcessState.ABANDONED]: "abandoned",
};

/** A process of the protocol as a {@link CommandInfo}. */
export function infoOf({ processId, command, state, exitCode, startedMs }: ProcessInfo): CommandInfo {
  const name = states[state] ?? "running";
  return {
    id: processId,
    command,
    state: name,
    exitCode: name === "running" ? undefined : exitCode,
    startedAt: new Date(Number(startedMs)),
  };
}

/** Waits; rejects with the reason of `signal` if it aborts. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Lists the commands of a sandbox. */
export async function listCommands(
  { processes }: Connection,
  key: SandboxKey,
  signal: AbortSignal | undefined,
): Promise<readonly CommandInfo[]> {
  const found = await call(signal, () => processes.list(key, { ...(signal && { signal }) }));
  return found.processes.map(infoOf);
}
