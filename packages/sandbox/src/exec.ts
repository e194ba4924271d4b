import { Command, type CommandInfo, infoOf, type OutputChunk, type SandboxKey } from "./command.ts";
import type { Connection } from "./connection.ts";
import { call, isSandboxError, SandboxError } from "./sandbox-error.ts";
import { joinChunks } from "./sandbox-files.ts";

/** Options of `Sandbox.start`. */
export interface StartOptions {
  /** Added to the variables of the sandbox. */
  readonly env?: Readonly<Record<string, string>>;
  /** Absolute. Default: the sandbox's. */
  readonly workingDir?: string;
  /** User inside the sandbox: a name of its image, a uid or `uid:gid`. Default: the sandbox's. */
  readonly user?: string;
  /** Kills the command after this time. Default: never. */
  readonly timeoutMs?: number;
  /** Runs the command on a terminal, which merges its outputs. */
  readonly terminal?: { readonly columns: number; readonly rows: number };
  /**
   * Keeps the command running without a reader, and the last 512 KiB of its output. Default: false; it is killed 30 s after nothing
   * follows its output.
   */
  readonly background?: boolean;
  /** Keeps standard input open for `Command.write`. Default: false. */
  readonly stdin?: boolean;
  readonly signal?: AbortSignal;
}

/** Options of `Sandbox.exec`. */
export interface ExecOptions extends Omit<StartOptions, "background" | "stdin"> {
  /** Standard input. Default: empty. */
  readonly stdin?: string | Uint8Array;
  /** Called with each part of the output as it arrives. */
  readonly onOutput?: (chunk: OutputChunk) => void;
  /** Kept bytes of each output; above that the command is killed. Default: 16 MiB. */
  readonly maxOutputBytes?: number;
  /** Rejects with `CommandFailed` if the exit code is not 0. Default: false. */
  readonly check?: boolean;
}

/** How a command ended and what it wrote. */
export interface ExecResult {
  /** 128 + n if a signal ended it. */
  readonly exitCode: number;
  /** As UTF-8. */
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
}

/** How long a command survives without a reader: long enough for dropped connections. */
const maxUnattendedMs = 30_000n;

const defaultMaxOutputBytes = 16 * 1024 * 1024;

/** Starts a command. A text is run by `sh -c`. */
export async function startCommand(
  connection: Connection,
  key: SandboxKey,
  command: string | readonly string[],
  options: StartOptions = {},
): Promise<Command> {
  const { env = {}, workingDir = "", user = "", timeoutMs = 0, terminal, background = false, stdin = false, signal } = options;
  const request = {
    ...key,
    ...{ workingDir, user, stdin },
    env: { ...env },
    command: typeof command === "string" ? ["sh", "-c", command] : [...command],
    timeoutMs: BigInt(Math.ceil(timeoutMs)),
    maxUnattendedMs: background ? 0n : maxUnattendedMs,
    ...(terminal && { terminal }),
  };
  const started = await call(signal, () => connection.processes.start(request, { ...(signal && { signal }) }));
  return new Command(connection, key, infoOf(started).id, 0);
}

/** Runs a command to its end. It is killed if `signal` aborts. */
export async function runCommand(
  connection: Connection,
  key: SandboxKey,
  command: string | readonly string[],
  options: ExecOptions = {},
): Promise<ExecResult> {
  const { stdin, onOutput, maxOutputBytes = defaultMaxOutputBytes, check = false, ...settings } = options;
  const running = await startCommand(connection, key, command, { ...settings, stdin: stdin !== undefined });
  try {
    const collected = new CollectedOutput(maxOutputBytes, onOutput);
    const [end] = await Promise.all([collected.read(running, options.signal), sendInput(running, stdin, options.signal)]);
    const result = collected.result(end);
    if (end.state === "timedOut")
      throw new SandboxError("TimedOut", `the command did not exit within ${options.timeoutMs} ms and was killed`);
    if (check && result.exitCode !== 0)
      throw new SandboxError(
        "CommandFailed",
        `the command exited with status ${result.exitCode}: ${result.stderr.slice(-500).trim()}`,
      );
    return result;
  } catch (error) {
    // Ends soon by itself if this fails, as nothing follows its output.
    if (!isSandboxError(error, "CommandFailed", "TimedOut")) await running.kill().catch(() => {});
    throw error;
  }
}

/** A command may exit without reading its input. */
async function sendInput(
  command: Command,
  input: string | Uint8Array | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (input === undefined) return;
  const options = signal === undefined ? {} : { signal };
  await command.write(input, options);
  await command.closeInput(options);
}

class CollectedOutput {
  readonly #maxBytes: number;
  readonly #onOutput: ((chunk: OutputChunk) => void) | undefined;
  readonly #chunks: Record<OutputChunk["stream"], Uint8Array[]> = { stdout: [], stderr: [] };
  readonly #bytes: Record<OutputChunk["stream"], number> = { stdout: 0, stderr: 0 };

  constructor(maxBytes: number, onOutput: ((chunk: OutputChunk) => void) | undefined) {
    this.#maxBytes = maxBytes;
    this.#onOutput = onOutput;
  }

  async read(command: Command, signal: AbortSignal | undefined): Promise<CommandInfo> {
    const control = new AbortController();
    const output = command.output({
      signal: signal === undefined ? control.signal : AbortSignal.any([signal, control.signal]),
    });
    try {
      for (;;) {
        const next = await output.next();
        if (next.done) return next.value;
        this.#add(next.value);
      }
    } finally {
      // Cancels the call if a part is rejected.
      control.abort();
    }
  }

  result({ exitCode = 0 }: CommandInfo): ExecResult {
    const [stdoutBytes, stderrBytes] = [joinChunks(this.#chunks.stdout), joinChunks(this.#chunks.stderr)];
    const decoder = new TextDecoder();
    return { exitCode, stdoutBytes, stderrBytes, stdout: decoder.decode(stdoutBytes), stderr: decoder.decode(stderrBytes) };
  }

  #add(chunk: OutputChunk): void {
    const { stream, data } = chunk;
    this.#bytes[stream] += data.length;
    if (this.#bytes[stream] > this.#maxBytes)
      throw new SandboxError(
        "ResourceExhausted",
        `the command wrote more than maxOutputBytes, ${this.#maxBytes} bytes, to ${stream}`,
      );
    this.#chunks[stream].push(data);
    this.#onOutput?.(chunk);
  }
}
