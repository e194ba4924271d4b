import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { type Status, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import { type ContainerCommand, startInContainer, type TerminalSize } from "../container/exec-process.ts";
import type { FoundContainer } from "../container/found-container.ts";
import type { Kubelet } from "../kubelet.ts";
import { endOfLog, readLog } from "../logs/log-reader.ts";
import { chooseContainer, type PodCall } from "../logs/pod-log.ts";
import type { PodView } from "../pod/pod-view.ts";
import { askedStreams, type RemoteStreams, remoteCommandProtocols, remoteStreams } from "./remote-streams.ts";
import { agree, type UpgradeAnswer } from "./upgrade.ts";

/**
 * Answers `pods/exec` and `pods/attach`, by WebSocket (KEP-4006) or SPDY/3.1. Throws a StatusError before the connection changes
 * its protocol.
 */
export async function answerExec(
  call: PodCall,
  kind: "exec" | "attach",
  findPod: () => Promise<PodView>,
  kubelet: Kubelet | undefined,
): Promise<UpgradeAnswer> {
  // The container first: kubectl tries another protocol after a refusal, and shows only what is said then.
  const pod = await findPod();
  const container = chooseContainer(pod, call.query["container"]);
  const { namespace = "", name = "" } = pod.metadata;
  const found = kubelet?.container(namespace, name, container);
  const program = found?.program;
  if (found === undefined || program === undefined || program.state.kind !== "running") {
    throw statusError("BadRequest", `container ${container} of pod ${name} is not running`);
  }
  const agreed = agree(call, remoteCommandProtocols);
  return {
    kind: "upgrade",
    connect(request) {
      const query = new URL(request.url, "http://localhost").searchParams;
      const asked = askedStreams(query);
      remoteStreams(request, agreed, asked)
        .then((streams) =>
          kind === "attach"
            ? attach(streams, program, asked.stdin, found)
            : exec(streams, program, query.getAll("command"), asked.tty, asked.stdin, found.clock),
        )
        // The client went away before it began; nothing runs for it.
        .catch(() => request.socket.destroy());
    },
  };
}

async function exec(
  streams: RemoteStreams,
  program: Program,
  command: readonly string[],
  isTty: boolean,
  hasInput: boolean,
  clock: Clock,
): Promise<void> {
  const terminal = isTty ? { terminal: { size: await firstSize(streams, clock) } } : {};
  let running: ContainerCommand;
  try {
    running = await startInContainer(program, command, terminal);
  } catch (error) {
    streams.finish(notStarted(error instanceof Error ? error.message : String(error)));
    return;
  }
  followSizes(streams, (size) => running.resize(size));
  // Nobody sees what it does any more.
  void streams.closed.then(() => running.kill());
  if (!hasInput) running.stdin.end();
  else copyInput(streams.stdin, running.stdin);
  const outputs = [copyOutput(running.stdout, streams.stdout), copyOutput(running.stderr, streams.stderr)];
  const { exitCode, problem } = await running.exited();
  await Promise.all(outputs);
  const text = `command terminated with non-zero exit code: exit status ${exitCode}`;
  streams.finish(problem !== undefined ? notStarted(problem) : exitCode === 0 ? success : failure(text, exitCode));
}

/** The output of the container's program from now on, and its input where the container has `stdin`. */
async function attach(streams: RemoteStreams, program: Program, hasInput: boolean, found: FoundContainer): Promise<void> {
  const gone = new AbortController();
  void streams.closed.then(() => gone.abort());
  streams.stdout.on("error", () => gone.abort());
  followSizes(streams, (size) => program.resize(size));
  // Before any input: what it brings about is seen whole.
  const from = await endOfLog(program);
  if (!hasInput || program.spec.input === undefined) streams.stdin.on("error", () => {}).resume();
  else copyToProgram(streams.stdin, program.openInput());
  const options = { follow: true, from, timestamps: false, signal: gone.signal };
  for await (const bytes of readLog(program, options, found.times(program))) await written(streams.stdout, bytes);
  streams.finish(success);
}

const success = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" } as Status;

/** The client's input, until it ends or nobody reads it any more. */
function copyInput(from: Readable, to: Writable): void {
  from.on("error", () => to.end());
  to.on("close", () => from.resume());
  from.pipe(to);
}

/** Sends what a stream brings, no faster than the peer takes it. */
async function copyOutput(from: Readable | undefined, to: Writable): Promise<void> {
  if (from === undefined) return;
  to.on("error", () => from.resume());
  try {
    for await (const chunk of from) await written(to, chunk as Buffer);
  } catch {
    // The pipe broke with its process: that the process ended is what counts.
  }
}

function written(to: Writable, chunk: Uint8Array): Promise<void> {
  return new Promise((resolve) => void to.write(chunk, () => resolve()));
}

/** What a client types, until either is gone; the input may be another client's then. */
function copyToProgram(from: Readable, to: Writable): void {
  from.on("error", () => to.end());
  from.on("close", () => to.end());
  to.on("close", () => from.resume());
  from.pipe(to);
}

function followSizes({ sizes }: RemoteStreams, resize: (size: TerminalSize) => Promise<void>): void {
  sizes.on("data", (data: Buffer) => {
    const changed = sizeOf(data);
    if (changed !== undefined) void resize(changed);
  });
  sizes.on("error", () => {});
}

/** The last of the sizes in a piece of {@link RemoteStreams.sizes}. `undefined` for nonsense. */
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

/** A client with a terminal tells its size at once; one without says nothing, and is not waited for long. */
async function firstSize(streams: RemoteStreams, clock: Clock): Promise<TerminalSize | undefined> {
  const patience = new AbortController();
  const timer = clock.setTimer(firstSizeMs, () => patience.abort());
  void streams.closed.then(() => patience.abort());
  try {
    const [data] = (await once(streams.sizes, "data", { signal: patience.signal })) as [Buffer];
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
  } as Status;
}
