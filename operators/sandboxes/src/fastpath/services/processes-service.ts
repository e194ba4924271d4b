import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { argumentSizeProblem, isSignal } from "@keelson/execution";
import {
  ListProcessesResponseSchema,
  type ProcessInfo,
  ProcessInfoSchema,
  type ProcessOutput,
  ProcessOutputSchema,
  ProcessState,
  type SandboxProcesses,
  type StartProcessRequest,
  WriteInputResponseSchema,
} from "@keelson/sandbox/protocol";
import {
  isProcessId,
  maxInputBytes,
  type ProcessOperation,
  type ProcessStart,
  type ProcessStatus,
} from "../../processes/process-operations.ts";
import { parseJson } from "../../fleet/agent-answer.ts";
import { lostBytesOf, processStatusOf } from "../../protocol/agent-answers.ts";
import { execChannels, type ExecFrame } from "../../protocol/exec-frames.ts";
import { commandSettings, terminalSize } from "./exec-settings.ts";
import { agentError, findAgent, type StreamsOptions } from "./streams-service.ts";

interface SandboxKey {
  readonly sandboxName: string;
  readonly namespace: string;
}

/** The service `keelson.sandboxes.v1.SandboxProcesses`. */
export function createProcessesService(options: StreamsOptions): ServiceImpl<typeof SandboxProcesses> {
  const runOne = async (key: SandboxKey, operation: ProcessOperation): Promise<ProcessStatus> => {
    const [process] = await run(findAgent(key, options), operation);
    if (process === undefined) throw new ConnectError("the agent did not describe the process", Code.Internal);
    return process;
  };
  return {
    start: async (request, { signal }) => infoOf(await startProcess(startOf(request), (each) => runOne(request, each), signal)),

    async list(request) {
      const processes = await run(findAgent(request, options), { kind: "list" });
      return create(ListProcessesResponseSchema, { processes: processes.map(infoOf) });
    },

    async *output(request, { signal }) {
      const { agent, sandboxId, absence } = findAgent(request, options);
      const offset = countOf("offset", request.offset);
      const processId = processIdOf(request.processId);
      try {
        const frames = await agent.processOutput(sandboxId, processId, offset, signal);
        yield* outputOf(frames, offset, signal);
      } catch (error) {
        if (signal.aborted) return;
        throw error instanceof ConnectError ? error : agentError(error, absence);
      }
    },

    async writeInput(request) {
      const { data, end } = request;
      if (data.length > maxInputBytes)
        throw new ConnectError(`data: ${data.length} bytes must be at most ${maxInputBytes}`, Code.InvalidArgument);
      const { inputBytes } = await runOne(request, {
        kind: "input",
        processId: processIdOf(request.processId),
        offset: countOf("offset", request.offset),
        data: Buffer.from(data).toString("base64"),
        isEnd: end,
      });
      return create(WriteInputResponseSchema, { acceptedBytes: BigInt(inputBytes) });
    },

    async signal(request) {
      const { signal = "SIGKILL" } = request.signal === "" ? {} : { signal: request.signal };
      if (!isSignal(signal))
        throw new ConnectError(`signal: ${signal} is not a known signal, such as SIGTERM`, Code.InvalidArgument);
      return infoOf(await runOne(request, { kind: "signal", processId: processIdOf(request.processId), signal }));
    },

    async resize(request) {
      const size = terminalSize(request.terminal);
      if (size === undefined) throw new ConnectError("terminal: is required", Code.InvalidArgument);
      return infoOf(await runOne(request, { kind: "resize", processId: processIdOf(request.processId), size }));
    },
  };
}

/** Starts a process, and kills it if the call is cancelled in the meantime. */
async function startProcess(
  start: ProcessStart,
  runOne: (operation: ProcessOperation) => Promise<ProcessStatus>,
  signal: AbortSignal,
): Promise<ProcessStatus> {
  const kill = (): Promise<unknown> =>
    runOne({ kind: "signal", processId: start.processId, signal: "SIGKILL" }).catch(() => {});
  let started: ProcessStatus;
  try {
    started = await runOne(start);
  } catch (error) {
    // Without an answer of the agent, the process may run.
    if (signal.aborted || (error instanceof ConnectError && error.code === Code.Unavailable)) await kill();
    throw error;
  }
  if (!signal.aborted) return started;
  await kill();
  throw new ConnectError("the call was cancelled while the process started", Code.Canceled);
}

async function run(
  { agent, sandboxId, absence }: ReturnType<typeof findAgent>,
  operation: ProcessOperation,
): Promise<readonly ProcessStatus[]> {
  try {
    return (await agent.processes(sandboxId, operation)).processes;
  } catch (error) {
    throw agentError(error, absence);
  }
}

function startOf(request: StartProcessRequest): ProcessStart {
  const { env, stdin: hasInput, timeoutMs, maxUnattendedMs } = request;
  const [program = "", ...rest] = request.command;
  if (program === "") throw new ConnectError("command: is required", Code.InvalidArgument);
  const problem = argumentSizeProblem(request.command, env);
  if (problem !== undefined) throw new ConnectError(problem, Code.InvalidArgument);
  const terminal = terminalSize(request.terminal);
  return {
    kind: "start",
    processId: request.processId === "" ? randomBytes(16).toString("hex") : processIdOf(request.processId),
    command: [program, ...rest],
    ...{ hasInput, ...commandSettings(request) },
    timeoutMs: countOf("timeout_ms", timeoutMs),
    maxUnattendedMs: countOf("max_unattended_ms", maxUnattendedMs),
    ...(terminal !== undefined && { terminal }),
  };
}

function processIdOf(id: string): string {
  if (!isProcessId(id)) throw new ConnectError("process_id: must be 1 to 64 letters, digits, - and _", Code.InvalidArgument);
  return id;
}

function countOf(field: string, value: bigint): number {
  if (value < 0n || value > BigInt(Number.MAX_SAFE_INTEGER))
    throw new ConnectError(`${field}: ${value} must be a non-negative integer`, Code.InvalidArgument);
  return Number(value);
}

/** The messages of an output. **Errors**: Unavailable if the connection to the agent ends before the process does. */
async function* outputOf(frames: AsyncIterable<ExecFrame>, from: number, signal: AbortSignal): AsyncGenerator<ProcessOutput> {
  let position = from;
  const message = (output: ProcessOutput["output"]): ProcessOutput =>
    create(ProcessOutputSchema, { offset: BigInt(position), output });
  for await (const { channel, data } of frames) {
    if (channel === execChannels.exit) {
      const status = processStatusOf(parseJson(data.toString("utf8")));
      yield message({ case: "exit", value: infoOf(status) });
      return;
    }
    if (channel === execChannels.gap) {
      const lostBytes = lostBytesOf(parseJson(data.toString("utf8")));
      yield message({ case: "lostBytes", value: BigInt(lostBytes) });
      position += lostBytes;
      continue;
    }
    yield message({ case: channel === execChannels.stderr ? "stderr" : "stdout", value: data });
    position += data.length;
  }
  if (!signal.aborted) throw new ConnectError("lost the connection to the agent while the process ran", Code.Unavailable);
}

const states = {
  running: ProcessState.RUNNING,
  exited: ProcessState.EXITED,
  "timed-out": ProcessState.TIMED_OUT,
  abandoned: ProcessState.ABANDONED,
} as const;

function infoOf({ processId, command, state, exitCode = 0, startedMs, outputBytes }: ProcessStatus): ProcessInfo {
  return create(ProcessInfoSchema, {
    ...{ processId, exitCode },
    command: [...command],
    state: states[state],
    startedMs: BigInt(startedMs),
    outputBytes: BigInt(outputBytes),
  });
}
