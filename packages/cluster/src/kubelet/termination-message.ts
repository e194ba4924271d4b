import { chmod, mkdir, open, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

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

/** What an attempt of a container said; empty where it said nothing. */
export async function terminationMessage(podDir: string, container: string, attempt: number): Promise<string> {
  try {
    const file = await open(fileOf(podDir, container, attempt), "r");
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
