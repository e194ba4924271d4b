import { spawn } from "node:child_process";
import { AgentError, programEnvironment } from "@keelson/middleware-agent";

/** The user that programs run as; undefined: that of the agent. */
export type ProgramUser = { readonly uid: number; readonly gid: number } | undefined;

/** How to run a tool. */
export interface ToolOptions {
  readonly cwd: string;
  readonly user: ProgramUser;
  readonly password?: string;
  /** Kills the tool. */
  readonly signal?: AbortSignal;
}

const maxOutputLength = 1_000_000;

/** Result of a tool. */
export interface ToolResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a tool of PostgreSQL until it has ended. Rejects if it cannot be started, and when it has ended after the signal fired. */
export function runTool(program: string, args: readonly string[], options: ToolOptions): Promise<ToolResult> {
  const { cwd, user, password, signal } = options;
  return new Promise((resolve, reject) => {
    const env = {
      ...programEnvironment(),
      LC_ALL: "C",
      HOME: cwd,
      ...(password === undefined ? {} : { PGPASSWORD: password }),
    };
    const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], ...user, ...(signal && { signal }) });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name].on("data", (chunk: Buffer) => {
        output[name] = (output[name] + chunk.toString("utf8")).slice(-maxOutputLength);
      });
    let failure: Error | undefined;
    child.once("error", (error) => {
      failure = error;
      // A tool that was aborted still writes until it has ended.
      if (child.pid === undefined) reject(error);
    });
    child.once("close", (exitCode) => {
      if (failure === undefined) resolve({ exitCode, ...output });
      else reject(failure);
    });
  });
}

/**
 * Runs a tool that must succeed. Resolves to its output.
 *
 * **Errors**: an `AgentError` with the end of its error output.
 */
export async function requireTool(program: string, args: readonly string[], options: ToolOptions): Promise<string> {
  const { exitCode, stdout, stderr } = await runTool(program, args, options);
  if (exitCode === 0) return stdout;
  const reason = stderr.trim().split("\n").slice(-3).join("; ");
  throw new AgentError("ProgramExited", `${program.slice(program.lastIndexOf("/") + 1)} failed: ${reason}`);
}
