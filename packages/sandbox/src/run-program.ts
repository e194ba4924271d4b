import { execFile } from "node:child_process";
import { promisify } from "node:util";

const execute = promisify(execFile);

/** Options of {@link runProgram}. */
export interface RunProgramOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A program that runs longer is killed. Default: 60 s. */
  readonly timeoutMs?: number;
}

/** Runs a program without a shell and without input. Resolves to its standard output. **Errors**: those of `execFile`. */
export async function runProgram(
  file: string,
  args: readonly string[],
  { env, timeoutMs = 60_000 }: RunProgramOptions,
): Promise<string> {
  const running = execute(file, args, { env, timeout: timeoutMs, killSignal: "SIGKILL" });
  // A program that asks a question reads its end instead of waiting. It may have exited before.
  running.child.stdin?.on("error", () => {}).end();
  return (await running).stdout;
}
