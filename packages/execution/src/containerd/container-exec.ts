import { readFile, rm } from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";
import type { ExecSession, ExecSpec, TerminalSize } from "../driver.ts";
import { failedExec } from "../io/exec-session.ts";
import { type FifoPool, readFifo, writeFifo } from "../io/fifo-pool.ts";
import type { CommandUser } from "../program/users/command-user.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { type ContainerdApi, ignoreNotFound } from "./containerd-api.ts";
import { parseStartError } from "./start-error.ts";

/** A command to run in a container. */
export interface ContainerExecRequest {
  readonly api: ContainerdApi;
  readonly fifos: FifoPool;
  readonly random: () => number;
  readonly containerId: string;
  readonly folder: ProgramFolder;
  readonly exec: ExecSpec;
  /** Default: the program's. */
  readonly user?: CommandUser;
}

const processType = "types.containerd.io/opencontainers/runtime-spec/1/Process";

/** File in a program's directory with the `process` section of its container's configuration. */
export const processFile = (folder: ProgramFolder): string => join(folder.path, "process.json");

/** The part of {@link processFile} that is read. */
interface OciProcess {
  readonly env: readonly string[];
  readonly capabilities?: Readonly<Record<string, readonly string[]>>;
}

/** Runs a command in a container as another process of the same task, with FIFOs for its input and output. */
export async function execInContainer(request: ContainerExecRequest): Promise<ExecSession> {
  const { api, containerId, folder, exec, user } = request;
  const base = JSON.parse(await readFile(processFile(folder), "utf8")) as OciProcess;
  const ids = { containerId, execId: `exec-${Math.floor(request.random() * 2 ** 48).toString(36)}` };
  const hasTerminal = exec.terminal !== undefined;
  const streams = await openStreams(request, ids.execId);
  const resize = async ({ columns, rows }: TerminalSize): Promise<void> => {
    // Fails if the command has exited; there is nothing to resize then.
    if (hasTerminal) await api.tasks.resizePty({ ...ids, width: columns, height: rows }).catch(() => {});
  };
  try {
    await api.tasks.exec({
      ...ids,
      ...streams.paths,
      terminal: hasTerminal,
      spec: { typeUrl: processType, value: Buffer.from(JSON.stringify(processOf(base, exec, user))) },
    });
    await api.tasks.start(ids);
    if (exec.terminal !== undefined) await resize(exec.terminal);
  } catch (error) {
    streams.destroy();
    await ignoreNotFound(api.tasks.deleteProcess(ids)).catch(() => {});
    await streams.remove();
    const problem = parseStartError(error instanceof Error ? error.message : String(error));
    return failedExec(problem === undefined ? error : new Error(problem.message), problem?.exitCode);
  }
  const { stdin, stdout, stderr } = streams;
  // The shim holds its own end of the input open, so it must be notified of the end of file.
  stdin.once("finish", () => void api.tasks.closeIO({ ...ids, stdin: true }).catch(() => {}));
  const exited = waitForExit(api, ids, streams);
  return {
    stdin,
    stdout,
    ...(stderr !== undefined && { stderr }),
    resize,
    async signal(signal) {
      await ignoreNotFound(api.tasks.kill({ ...ids, signal: constants.signals[signal] })).catch(() => {});
    },
    async kill() {
      await ignoreNotFound(api.tasks.kill({ ...ids, signal: constants.signals.SIGKILL })).catch(() => {});
    },
    exited: () => exited,
  };
}

/** The FIFOs of a command. */
interface ExecStreams {
  readonly stdin: ReturnType<typeof writeFifo>;
  readonly stdout: ReturnType<typeof readFifo>;
  /** Undefined with a terminal. */
  readonly stderr: ReturnType<typeof readFifo> | undefined;
  /** As containerd opens them; `stderr` is empty with a terminal. */
  readonly paths: { readonly stdin: string; readonly stdout: string; readonly stderr: string };
  destroy(): void;
  /** Removes the files. */
  remove(): Promise<void>;
}

async function openStreams({ fifos, folder, exec }: ContainerExecRequest, execId: string): Promise<ExecStreams> {
  const path = (name: string): string => join(folder.path, `${execId}-${name}`);
  const hasTerminal = exec.terminal !== undefined;
  const paths = { stdin: path("stdin"), stdout: path("stdout"), stderr: hasTerminal ? "" : path("stderr") };
  const files = Object.values(paths).filter((file) => file !== "");
  for (const file of files) await fifos.take(file);
  const stdin = writeFifo(paths.stdin);
  const stdout = readFifo(paths.stdout);
  const stderr = hasTerminal ? undefined : readFifo(paths.stderr);
  // The command may exit without reading its input.
  stdin.on("error", () => {});
  return {
    stdin,
    stdout,
    stderr,
    paths,
    destroy() {
      for (const stream of [stdin, stdout, stderr]) stream?.destroy();
    },
    async remove() {
      await Promise.all(files.map((file) => rm(file, { force: true })));
    },
  };
}

/** The OCI process of a command: the program's, with its own arguments, environment and terminal. */
function processOf(base: OciProcess, exec: ExecSpec, user: CommandUser | undefined): object {
  const environment = {
    ...Object.fromEntries(base.env.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)])),
    ...(exec.terminal !== undefined && { TERM: "xterm" }),
    ...exec.env,
  };
  return {
    ...base,
    ...(user !== undefined && userOf(base, user)),
    args: exec.command,
    ...(exec.cwd !== undefined && { cwd: exec.cwd }),
    env: Object.entries(environment).map(([name, value]) => `${name}=${value}`),
    terminal: exec.terminal !== undefined,
    ...(exec.terminal !== undefined && { consoleSize: { width: exec.terminal.columns, height: exec.terminal.rows } }),
  };
}

/** Another user. Only root has capabilities, as after a change of user; the runtime sets HOME. */
function userOf({ capabilities = {} }: OciProcess, { uid, gid, groups }: CommandUser): object {
  return {
    user: { uid, gid, additionalGids: groups },
    capabilities: uid === 0 ? capabilities : { ...capabilities, effective: [], permitted: [] },
  };
}

async function waitForExit(
  api: ContainerdApi,
  ids: { readonly containerId: string; readonly execId: string },
  streams: ExecStreams,
): Promise<{ readonly exitCode: number }> {
  const exitCode = await api.tasks.wait(ids).then(
    ({ exitStatus }) => exitStatus,
    () => 137,
  );
  // When this returns, the shim has written all output.
  await ignoreNotFound(api.tasks.deleteProcess(ids)).catch(() => {});
  streams.stdin.destroy();
  await streams.remove();
  return { exitCode };
}
