import { spawnSync } from "node:child_process";
import { closeSync, constants, fstatSync, openSync, unlinkSync, writeSync } from "node:fs";
import { MpiError } from "./mpi-error.ts";

/*
 * A launcher reports its readiness to Kubernetes immediately and without polling: its startup probe is a shell that reads a line from a
 * pipe, which the launcher writes when it is ready. The pipe is created by the first of the two.
 */

/** Variable with the name of the pipe, a file in `TMPDIR` (default `/tmp`). */
export const readyPipeVariable = "KEELSON_MPI_READY";

/** Command of the probe. It exits with 0 when the launcher is ready, and with 1 when the launcher has ended. */
export const readyProbeCommand: readonly string[] = [
  "/bin/sh",
  "-c",
  `pipe=\${TMPDIR:-/tmp}/$${readyPipeVariable}; mkfifo -m 600 "$pipe" 2>/dev/null; read -r _ <"$pipe"`,
];

/** Path of a launcher's pipe. **Errors**: {@link MpiError} `InvalidEnvironment` if the name is not valid. */
export function readyPipePath(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  const name = environment[readyPipeVariable];
  if (name === undefined || name === "") return undefined;
  if (!/^[a-z0-9][-a-z0-9]{0,99}$/.test(name)) throw invalidName(name);
  return `${environment["TMPDIR"] || "/tmp"}/${name}`;
}

function invalidName(name: string): MpiError {
  return new MpiError("InvalidEnvironment", `${readyPipeVariable}: ${JSON.stringify(name)} is not a valid file name`);
}

/** The launcher's end of the pipe. */
export interface ReadySignal {
  /** Makes current and later probes succeed. */
  ready(): void;
  /** Makes a waiting probe fail, and removes the pipe. */
  close(): void;
}

/** A probe reads one line. It runs once, and again if the kubelet restarts before it sees the result. */
const answers = "ready\n".repeat(1000);

/**
 * Creates the pipe at `path`, or opens the one that a probe has created.
 *
 * **Errors**: {@link MpiError} `PipeFailed` if another file has that path.
 */
export function createReadySignal(path: string): ReadySignal {
  spawnSync("mkfifo", ["-m", "600", path], { stdio: "ignore" });
  // Opened for reading and writing, so that opening does not block and lines are kept for a late probe.
  const pipe = openSync(path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  const stat = fstatSync(pipe);
  if (!stat.isFIFO() || stat.uid !== process.getuid?.()) {
    closeSync(pipe);
    throw new MpiError("PipeFailed", `${path} exists and is not the launcher's pipe`);
  }
  let isOpen = true;
  return {
    ready: () => void (isOpen && writeSync(pipe, answers)),
    close() {
      if (!isOpen) return;
      isOpen = false;
      unlinkSync(path);
      closeSync(pipe);
    },
  };
}
