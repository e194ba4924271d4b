import type { DeepReadonly } from "@keelson/api-machinery";
import type { LogPosition } from "@keelson/execution";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import { robotProblem } from "../controllers/tasks/running-task.ts";
import { maxExecTimeoutMs } from "../protocol/exec-messages.ts";
import { type LogRequest, logsFeature, logStreams, type LogStream } from "../protocol/log-messages.ts";
import type { ExecEnd, ExecHandle, ExecSessions } from "./exec-sessions.ts";

/** Receives the output of a task. */
export interface TaskLogReader {
  /** Resolves when the reader accepts more. */
  output(stream: LogStream, data: Buffer): Promise<void>;
  /** Something that the user should know; more output follows. */
  notice(message: string): void;
  readonly signal: AbortSignal;
}

/** Options of {@link sendTaskLog}. */
export interface TaskLogOptions {
  readonly task: string;
  readonly request: LogRequest;
  readonly reader: TaskLogReader;
  readonly sessions: Pick<ExecSessions, "open">;
  readonly taskNamed: (name: string) => DeepReadonly<Task> | undefined;
  readonly robotNamed: (name: string) => DeepReadonly<Robot> | undefined;
  /** Calls the listener when a Task or a Robot has changed. Returns a function that ends this. */
  readonly onChange: (listener: () => void) => () => void;
}

type Found =
  | { readonly kind: "found"; readonly task: DeepReadonly<Task>; readonly uid: string; readonly attempt: number }
  | { readonly kind: "offline"; readonly task: DeepReadonly<Task>; readonly message: string }
  | { readonly kind: "problem"; readonly message: string };

/**
 * Sends the output of a task from its robot. A reader that follows it waits for a robot that is not online, and continues where the output ended when
 * the robot returns. Others get the end of the output that the robot has reported.
 */
export async function sendTaskLog(options: TaskLogOptions): Promise<ExecEnd> {
  const { request, reader } = options;
  const positions = new Map<LogStream, LogPosition>();
  let read: { readonly uid: string; readonly attempt: number } | undefined;
  let isWaiting = false;
  while (!reader.signal.aborted) {
    const found = find(options);
    if (found.kind === "problem") return { problem: found.message };
    if (found.kind === "offline") {
      if (!request.isFollowing) return await sendReported(found.task, found.message, request, reader);
      if (!isWaiting) reader.notice(`${found.message}; waiting for the robot`);
      isWaiting = true;
      await nextChange(options);
      continue;
    }
    if (isWaiting) reader.notice("continuing with the output");
    isWaiting = false;
    // What another attempt has written begins anew.
    if (read?.uid !== found.uid || read.attempt !== found.attempt) positions.clear();
    read = found;
    const end = await readFromRobot(options, found, positions);
    if (!request.isFollowing || !("problem" in end) || end.isInterrupted !== true) return end;
    reader.notice(end.problem);
    isWaiting = true;
  }
  return { problem: "the reader disconnected" };
}

function find({ task: name, taskNamed, robotNamed }: TaskLogOptions): Found {
  const task = taskNamed(name);
  const uid = task?.metadata.uid;
  if (task === undefined || uid === undefined) return { kind: "problem", message: `task ${name} not found in this namespace` };
  const { targetRobot } = task.spec;
  const { attempt, state, message } = task.status ?? {};
  if (targetRobot === undefined || attempt === undefined) {
    const why = message === undefined ? "" : `: ${message}`;
    return { kind: "problem", message: `task ${name} is ${state || "pending"} and has no output yet${why}` };
  }
  const problem = robotProblem(targetRobot, robotNamed(targetRobot), { feature: logsFeature, what: "requests for output" });
  if (problem?.reason === "RobotNotOnline") return { kind: "offline", task, message: `robot ${targetRobot} is not online` };
  return problem === undefined ? { kind: "found", task, uid, attempt } : { kind: "problem", message: problem.message };
}

/** Sends what the robot has reported with its last status. */
async function sendReported(
  { status = {} }: DeepReadonly<Task>,
  message: string,
  { streams, tailLines }: LogRequest,
  reader: TaskLogReader,
): Promise<ExecEnd> {
  const reported = { stdout: status.logsStdout ?? "", stderr: status.logsStderr ?? "" };
  if (reported.stdout === "" && reported.stderr === "")
    return { problem: `${message}, and has reported no output of the task` };
  reader.notice(`${message}; this is the end of the output that it has reported`);
  for (const stream of streams) {
    const text = tailLines === undefined ? reported[stream] : lastLines(reported[stream], tailLines);
    if (text !== "") await reader.output(stream, Buffer.from(text));
  }
  return { exitCode: 0 };
}

function lastLines(text: string, count: number): string {
  const lines = text.split("\n");
  const kept = text.endsWith("\n") ? count + 1 : count;
  return count === 0 ? "" : lines.slice(-kept).join("\n");
}

function readFromRobot(
  { request, reader, sessions }: TaskLogOptions,
  { task, uid, attempt }: Found & { readonly kind: "found" },
  positions: Map<LogStream, LogPosition>,
): Promise<ExecEnd> {
  return new Promise((resolve) => {
    const from = Object.fromEntries(
      logStreams.flatMap((stream) => (positions.has(stream) ? [[stream, positions.get(stream)]] : [])),
    );
    const start = { kind: "logs" as const, taskUid: uid, attempt, timeoutMs: maxExecTimeoutMs, ...request, from };
    const handle: ExecHandle | undefined = sessions.open(task.spec.targetRobot ?? "", start, {
      async onOutput({ stream, data, position }) {
        await reader.output(stream, data);
        if (position !== undefined) positions.set(stream, position);
      },
      onEnd(end) {
        reader.signal.removeEventListener("abort", close);
        resolve(end);
      },
    });
    const close = (): void => handle?.close();
    if (handle === undefined) resolve({ problem: "the operator runs its maximum number of commands; try again later" });
    else if (reader.signal.aborted) close();
    else reader.signal.addEventListener("abort", close, { once: true });
  });
}

/** Resolves when a Task or a Robot has changed, or the reader disconnected. */
function nextChange({ onChange, reader }: TaskLogOptions): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      unsubscribe();
      reader.signal.removeEventListener("abort", done);
      resolve();
    };
    const unsubscribe = onChange(done);
    reader.signal.addEventListener("abort", done, { once: true });
  });
}
