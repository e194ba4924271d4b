import { createHash } from "node:crypto";
import { join } from "node:path";

/** Where one program's files are. */
export interface ProgramFolder {
  readonly id: string;
  readonly path: string;
  readonly spec: string;
  readonly state: string;
  /** Written by the shim, see `shim.ts`. */
  readonly exit: string;
  /** FIFO that the shim holds open as long as it lives. */
  readonly alive: string;
  /** FIFO that the program reads, where its spec gives it an input. */
  readonly input: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly work: string;
  /** Names the program on this machine: its cgroup, and a variable in its environment, by which its processes are found. */
  readonly tag: string;
}

/** The files of program `id` below a driver's folder. `dir` is a real path, so that the tag is the same for every supervisor. */
export function programFolder(dir: string, id: string): ProgramFolder {
  const path = join(dir, id);
  return {
    id,
    path,
    spec: join(path, "spec.json"),
    state: join(path, "state.json"),
    exit: join(path, "exit"),
    alive: join(path, "alive"),
    input: join(path, "input"),
    stdout: join(path, "stdout.log"),
    stderr: join(path, "stderr.log"),
    work: join(path, "work"),
    tag: `keelson-${createHash("sha256").update(path).digest("hex").slice(0, 16)}`,
  };
}
