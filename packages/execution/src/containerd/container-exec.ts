import { readFile, rm } from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";
import type { ExecSession, ExecSpec } from "../driver.ts";
import { failedExec } from "../io/exec-session.ts";
import { readFifo, writeFifo } from "../io/fifo-pool.ts";
import type { FifoPool } from "../io/fifo-pool.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import type { ContainerdApi } from "./containerd-api.ts";
import { ignoreNotFound } from "./containerd-api.ts";
import { parseStartError } from "./start-error.ts";

/** A command to run in a container. */
export interface ContainerExecRequest {
  readonly api: ContainerdApi;
  readonly fifos: FifoPool;
  readonly random: () => number;
  readonly containerId: string;
  readonly folder: ProgramFolder;
  readonly exec: ExecSpec;
}

const processType = "types.containerd.io/opencontainers/runtime-spec/1/Process";

/** File in a program's folder with the `process` section of its container's configuration. */
export const processFile = (folder: ProgramFolder): string => join(folder.path, "process.json");

/** The part of {@link processFile} that is read. */
interface OciProcess {
  readonly env: readonly string[];
}

/** Runs a command in a container as another process of the same task, with FIFOs for its input and output. */
export async function execInContainer(request: ContainerExecRequest): Promise<ExecSession> {
  const { api, containerId, folder, exec } = request;
  const base = JSON.parse(await readFile(processFile(folder), "utf8")) as OciProcess;
  const execId = `exec-${Math.floor(request.random() * 2 ** 48).toString(36)}`;
  const hasTerminal = exec.terminal !== undefined;
  const path = (name: string): string => join(folder.path, `${execId}-${name}`);
  const names = hasTerminal ? (["stdin", "stdout"] as const) : (["stdin", "stdout", "stderr"] as const);
  const removeFifos = (): Promise<unknown> => Promise.all(names.map((name) => rm(path(name), { force: true })));
  for (const name of names) await request.fifos.take(path(name));
  const stdin = writeFifo(path("stdin"));
  const stdout = readFifo(path("stdout"));
  const stderr = hasTerminal ? undefined : readFifo(path("stderr"));
  const fds = [stdin, stdout, ...(stderr === undefined ? [] : [stderr])];
  // The command may exit without reading its input.
  stdin.on("error", () => {});
  const environment = {
    ...Object.fromEntries(base.env.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)])),
    ...(hasTerminal && { TERM: "xterm" }),
    ...exec.env,
  };
  const spec = {
    ...base,
    args: exec.command,
    env: Object.entries(environment).map(([name, value]) => `${name}=${value}`),
    terminal: hasTerminal,
    ...(exec.terminal !== undefined && { consoleSize: { width: exec.terminal.columns, height: exec.terminal.rows } }),
  };
  const ids = { containerId, execId };
  const resize = async ({ columns, rows }: { readonly columns: number; readonly rows: number }): Promise<void> => {
    // Fails if the command has exited; there is nothing to resize then.
    if (hasTerminal) await api.tasks.resizePty({ ...ids, width: columns, height: rows }).catch(() => {});
  };
  try {
    await api.tasks.exec({
      ...ids,
      stdin: path("stdin"),
      stdout: path("stdout"),
      stderr: hasTerminal ? "" : path("stderr"),
      terminal: hasTerminal,
      spec: { typeUrl: processType, value: Buffer.from(JSON.stringify(spec)) },
    });
    await api.tasks.start(ids);
    if (exec.terminal !== undefined) await resize(exec.terminal);
  } catch (error) {
    for (const fd of fds) fd.destroy();
    await ignoreNotFound(api.tasks.deleteProcess(ids)).catch(() => {});
    await removeFifos();
    const problem = parseStartError(error instanceof Error ? error.message : String(error));
    return failedExec(problem === undefined ? error : new Error(problem.message), problem?.exitCode);
  }
  // The shim holds its own end of the input open, so it must be notified of the end of file.
  stdin.once("finish", () => void api.tasks.closeIO({ ...ids, stdin: true }).catch(() => {}));
  const exited = (async () => {
    const exitCode = await api.tasks.wait(ids).then(
      ({ exitStatus }) => exitStatus,
      () => 137,
    );
    // When this returns, the shim has written all output.
    await ignoreNotFound(api.tasks.deleteProcess(ids)).catch(() => {});
    stdin.destroy();
    await removeFifos();
    return { exitCode };
  })();
  return {
    stdin,
    stdout,
    ...(stderr !== undefined && { stderr }),
    resize,
    async kill() {
      await ignoreNotFound(api.tasks.kill({ ...ids, signal: constants.signals.SIGKILL })).catch(() => {});
    },
    exited: () => exited,
  };
}
