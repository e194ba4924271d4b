import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { MpiError } from "./mpi-error.ts";
import { programVariables } from "./pod-environment.ts";

type Environment = Readonly<Record<string, string>>;

/**
 * Creates the directory of the job's checkpoints, if it has one.
 *
 * **Errors**: {@link MpiError} `CheckpointFailed`.
 */
export function createCheckpointFolder(environment: Environment): void {
  const folder = environment[programVariables.checkpointFolder];
  if (folder === undefined || folder === "") return;
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new MpiError("CheckpointFailed", `could not create the checkpoint directory: ${String(error)}`);
  }
}

/** Options of {@link runBefore}. */
export interface BeforeOptions {
  readonly workingDirectory: string;
  readonly environment: Environment;
  readonly signal: AbortSignal;
}

/**
 * Runs the command that precedes the program, and waits for its end. Its output is that of the launcher.
 *
 * **Errors**: {@link MpiError} `CheckpointFailed` if the command fails or is stopped.
 */
export async function runBefore(
  [command = "", ...words]: readonly string[],
  { workingDirectory, environment, signal }: BeforeOptions,
): Promise<void> {
  const problem = await new Promise<string | undefined>((resolve) => {
    const child = spawn(command, words, {
      ...{ cwd: workingDirectory, env: environment, signal, killSignal: "SIGKILL" },
      stdio: ["ignore", "inherit", "inherit"],
    });
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, killedBy) =>
      resolve(code === 0 ? undefined : code === null ? `killed by ${killedBy}` : `exit code ${code}`),
    );
  });
  if (problem !== undefined) throw new MpiError("CheckpointFailed", `the command before the restart failed: ${problem}`);
}
