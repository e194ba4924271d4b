import { chmod, mkdir, open, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Program, readLogTail } from "@keelson/execution";
import type { Finished } from "../pod/pod-state.ts";
import type { ContainerView } from "../pod/pod-view.ts";

/** Where a container says why it ended, unless it names another file. */
export const defaultTerminationPath = "/dev/termination-log";

/** As much of it as is shown, as in Kubernetes. */
const mostBytes = 4096;

const fileOf = (podDir: string, container: string, attempt: number): string =>
  join(podDir, "termination", `${container}.${attempt}`);

/** Makes the empty file that an attempt of a container is to find at its `terminationMessagePath`. */
export async function makeTerminationFile(podDir: string, container: string, attempt: number): Promise<string> {
  const file = fileOf(podDir, container, attempt);
  await mkdir(dirname(file), { recursive: true, mode: 0o755 });
  await writeFile(file, "");
  // Whoever the program runs as.
  await chmod(file, 0o666);
  return file;
}

/** What a container left in its `terminationMessagePath`, or by its policy the end of its log; empty where it said nothing. */
export async function lastWords(podDir: string, container: ContainerView, program: Program, end: Finished): Promise<string> {
  const said = await startOf(fileOf(podDir, container.name, end.attempt));
  if (said !== "" || container.terminationMessagePolicy !== "FallbackToLogsOnError" || end.exitCode === 0) return said;
  return (await readLogTail(program.logs.stdout, 2048)).split("\n").slice(-80).join("\n");
}

async function startOf(path: string): Promise<string> {
  try {
    const file = await open(path, "r");
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(mostBytes), 0, mostBytes, 0);
      return buffer.toString("utf8", 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch {
    return "";
  }
}
