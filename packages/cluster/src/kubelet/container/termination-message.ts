import { chmod, mkdir, open, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Program, readLogTail } from "@keelson/execution";
import type { Finished } from "../pod/machine/pod-state.ts";
import type { ContainerView } from "../pod/pod-view.ts";

/** The default of `terminationMessagePath`. */
export const defaultTerminationPath = "/dev/termination-log";

/** The maximum length of a termination message, as in Kubernetes. */
const maxMessageBytes = 4096;

const fileOf = (podDir: string, container: string, attempt: number): string =>
  join(podDir, "termination", `${container}.${attempt}`);

/** Creates the empty file that is mounted at an attempt's `terminationMessagePath`. */
export async function createTerminationFile(podDir: string, container: string, attempt: number): Promise<string> {
  const file = fileOf(podDir, container, attempt);
  await mkdir(dirname(file), { recursive: true, mode: 0o755 });
  await writeFile(file, "");
  // Writable for any user that the program runs as.
  await chmod(file, 0o666);
  return file;
}

/** The termination message of an attempt, or by its policy the end of its log; empty if there is neither. */
export async function terminationMessage(
  podDir: string,
  container: ContainerView,
  program: Program,
  end: Finished,
): Promise<string> {
  const message = await startOf(fileOf(podDir, container.name, end.attempt));
  if (message !== "" || container.terminationMessagePolicy !== "FallbackToLogsOnError" || end.exitCode === 0) return message;
  return (await readLogTail(program.logs.stdout, 2048)).split("\n").slice(-80).join("\n");
}

async function startOf(path: string): Promise<string> {
  try {
    const file = await open(path, "r");
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(maxMessageBytes), 0, maxMessageBytes, 0);
      return buffer.toString("utf8", 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch {
    return "";
  }
}
