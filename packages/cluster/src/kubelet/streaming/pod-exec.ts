import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { type Status, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import { type CommandOptions, type ContainerCommand, startInContainer, type TerminalSize } from "../container/exec-process.ts";
import type { ContainerHandle } from "../container/container-handle.ts";
import type { Kubelet } from "../kubelet.ts";
import { endOfLog, readLog } from "../logs/log-reader.ts";
import { chooseContainer, type PodCall } from "../logs/pod-log.ts";
import type { PodView } from "../pod/pod-view.ts";
import type { CommandStarts } from "./command-starts.ts";
import { requestedStreams, type RemoteStreams, remoteCommandProtocols, remoteStreams } from "./remote-streams.ts";
import { agree, type UpgradeAnswer } from "./upgrade.ts";

/** What {@link answerExec} needs alongside the request. */
export interface ExecOptions {
  readonly kind: "exec" | "attach";
  readonly findPod: () => Promise<PodView>;
  readonly kubelet: Kubelet | undefined;
  /** Whether the sender may run commands in containers that are bare processes. */
  readonly mayUseProcess: boolean;
  readonly starts: CommandStarts;
}

/**
 * Serves `pods/exec` and `pods/attach` over WebSocket (KEP-4006) or SPDY/3.1. Throws a StatusError before the protocol is switched.
 */
export async function answerExec(
  call: PodCall,
  { kind, findPod, kubelet, mayUseProcess, starts }: ExecOptions,
): Promise<UpgradeAnswer> {
  // The container is checked first: kubectl retries a rejected upgrade with another protocol and shows only that error.
  const pod = await findPod();
  const container = chooseContainer(pod, call.query["container"]);
  const { namespace = "", name = "" } = pod.metadata;
  const found = kubelet?.container(namespace, name, container);
  const program = found?.program;
  if (found === undefined || program === undefined || program.state.kind !== "running") {
    throw statusError("BadRequest", `container ${container} of pod ${name} is not running`);
  }
  if (program.spec.isolation === undefined && !mayUseProcess) {
    const reason = `container ${container} runs as a process of the node, which requires verb "use" on runtimeclasses.node.k8s.io "process"`;
    throw statusError("Forbidden", `pods ${JSON.stringify(name)} is forbidden: ${reason}`, { name, kind: "pods" });
  }
  const agreed = agree(call, remoteCommandProtocols);
  return {
    kind: "upgrade",
    connect(request) {
      request.onStatus?.(101);
      const query = new URL(request.url, "http://localhost").searchParams;
      const requested = requestedStreams(query);
      remoteStreams(request, agreed, requested)
        .then((streams) =>
          kind === "attach"
            ? attach(streams, program, requested.stdin, found)
            : exec(streams, {
                isTty: requested.tty,
                hasInput: requested.stdin,
                clock: found.clock,
                start: (terminal) =>
                  starts.run(`${namespace}/${name}/${container}`, streams.closed, () =>
                    startInContainer(program, query.getAll("command"), terminal),
                  ),
              }),
        )
        // The client disconnected before its streams were open, so nothing was started.
        .catch(() => request.socket.destroy());
    },
  };
}

interface CommandSession {
  readonly isTty: boolean;
  readonly hasInput: boolean;
  readonly clock: Clock;
  /** Starts the command. Resolves to undefined if the client has disconnected before. */
  readonly start: (options: CommandOptions) => Promise<ContainerCommand | undefined>;
}

async function exec(streams: RemoteStreams, { isTty, hasInput, clock, start }: CommandSession): Promise<void> {
  const terminal = isTty ? { terminal: { size: await firstSize(streams, clock) } } : {};
  let started: ContainerCommand | undefined;
  try {
    started = await start(terminal);
  } catch (error) {
    streams.finish(notStarted(error instanceof Error ? error.message : String(error)));
    return;
  }
  if (started === undefined) return;
  const running = started;
  followSizes(streams, (size) => running.resize(size));
  // Without a client the command is killed.
  void streams.closed.then(() => running.kill());
  if (!hasInput) running.stdin.end();
  else copyInput(streams.stdin, running.stdin);
  const outputs = [copyOutput(running.stdout, streams.stdout), copyOutput(running.stderr, streams.stderr)];
  const { exitCode, problem } = await running.exited();
  await Promise.all(outputs);
  const text = `command terminated with non-zero exit code: exit status ${exitCode}`;
  streams.finish(problem !== undefined ? notStarted(problem) : exitCode === 0 ? success : failure(text, exitCode));
}

/** Streams the output of the container's program from now on, and its input if the container has `stdin`. */
async function attach(streams: RemoteStreams, program: Program, hasInput: boolean, found: ContainerHandle): Promise<void> {
  const disconnected = new AbortController();
  void streams.closed.then(() => disconnected.abort());
  streams.stdout.on("error", () => disconnected.abort());
  followSizes(streams, (size) => program.resize(size));
  // Taken before any input is sent, so that the whole response to it is shown.
  const from = await endOfLog(program);
  if (!hasInput || program.spec.input === undefined) streams.stdin.on("error", () => {}).resume();
  else copyToProgram(streams.stdin, program.openInput());
  const options = { follow: true, from, timestamps: false, signal: disconnected.signal };
  for await (const bytes of readLog(program, options, found.times(program))) await written(streams.stdout, bytes);
  streams.finish(success);
}

const success = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" } as Status;

/** Copies the client's input until it ends or its reader closes. */
function copyInput(from: Readable, to: Writable): void {
  from.on("error", () => to.end());
  to.on("close", () => from.resume());
  from.pipe(to);
}

/** Copies an output stream, no faster than the peer reads. */
async function copyOutput(from: Readable | undefined, to: Writable): Promise<void> {
  if (from === undefined) return;
  to.on("error", () => from.resume());
  try {
    for await (const chunk of from) await written(to, chunk as Buffer);
  } catch {
    // The pipe broke with its process; the exit status is reported separately.
  }
}

function written(to: Writable, chunk: Uint8Array): Promise<void> {
  return new Promise((resolve) => void to.write(chunk, () => resolve()));
}

/** Copies a client's input until either side closes; another client may use the program's input then. */
function copyToProgram(from: Readable, to: Writable): void {
  from.on("error", () => to.end());
  from.on("close", () => to.end());
  to.on("close", () => from.resume());
  from.pipe(to);
}

/** Resizes the terminal to the client's latest size, one change at a time. */
function followSizes({ sizes }: RemoteStreams, resize: (size: TerminalSize) => Promise<void>): void {
  let latest: TerminalSize | undefined;
  let isResizing = false;
  const apply = async (): Promise<void> => {
    isResizing = true;
    for (let size = latest; size !== undefined; size = latest) {
      latest = undefined;
      await resize(size);
    }
    isResizing = false;
  };
  sizes.on("data", (data: Buffer) => {
    latest = sizeOf(data) ?? latest;
    if (latest !== undefined && !isResizing) void apply();
  });
  sizes.on("error", () => {});
}

/** The last size in a chunk of {@link RemoteStreams.sizes}; `undefined` if it is malformed. */
function sizeOf(data: Buffer): TerminalSize | undefined {
  try {
    const last = data.toString("utf8").trim().split("\n").at(-1) ?? "";
    const { Width: columns, Height: rows } = JSON.parse(last) as { Width?: unknown; Height?: unknown };
    const isSize = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0 && Number(value) < 65_536;
    return isSize(columns) && isSize(rows) ? { columns, rows } : undefined;
  } catch {
    return undefined;
  }
}

/** Waits briefly for the terminal size, which clients with a terminal send first. */
async function firstSize(streams: RemoteStreams, clock: Clock): Promise<TerminalSize | undefined> {
  const timeout = new AbortController();
  const timer = clock.setTimer(firstSizeMs, () => timeout.abort());
  void streams.closed.then(() => timeout.abort());
  try {
    const [data] = (await once(streams.sizes, "data", { signal: timeout.signal })) as [Buffer];
    return sizeOf(data);
  } catch {
    return undefined;
  } finally {
    timer.cancel();
  }
}

const firstSizeMs = 300;

function notStarted(problem: string): Status {
  return failure(`error executing command: ${problem}`, 126);
}

function failure(text: string, exitCode: number): Status {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: text,
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: String(exitCode) }] },
  };
}
