import { spawnSync } from "node:child_process";
import { closeSync, constants, fstatSync, openSync, unlinkSync, writeSync } from "node:fs";

/*
 * How a launcher tells Kubernetes that it is ready, at once and without being asked again and again: its startup probe is a shell
 * that reads a line from a pipe, which comes when the launcher is ready. Whoever comes first makes the pipe.
 */

/** Variable with the name of the pipe, a file in `TMPDIR` (default `/tmp`). */
export const readyPipeVariable = "KEELSON_MPI_READY";

/** What the probe runs: it ends with 0 when the launcher is ready, and with 1 when that has ended. */
export const readyProbeCommand: readonly string[] = [
  "/bin/sh",
  "-c",
  `pipe=\${TMPDIR:-/tmp}/$${readyPipeVariable}; mkfifo -m 600 "$pipe" 2>/dev/null; read -r _ <"$pipe"`,
];

/** Path of a launcher's pipe. Throws where the name is none. */
export function readyPipePath(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  const name = environment[readyPipeVariable];
  if (name === undefined || name === "") return undefined;
  if (!/^[a-z0-9][-a-z0-9]{0,99}$/.test(name)) throw new Error(`${readyPipeVariable}: ${JSON.stringify(name)} is no file name`);
  return `${environment["TMPDIR"] || "/tmp"}/${name}`;
}

/** The launcher's end of the pipe. */
export interface ReadySignal {
  /** From now on probes succeed. */
  ready(): void;
  /** Lets a probe that still waits fail, and removes the pipe. */
  close(): void;
}

/** A probe takes one line. It is asked once, and again where the node's supervisor did not live to see the answer. */
const answers = "ready\n".repeat(1000);

/** Makes the pipe at `path`, or takes the one that a probe has made. Throws where something else is there. */
export function createReadySignal(path: string): ReadySignal {
  spawnSync("mkfifo", ["-m", "600", path], { stdio: "ignore" });
  // Opened both ways, so that opening waits for nobody, and lines wait for a probe that comes late.
  const pipe = openSync(path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  const stat = fstatSync(pipe);
  if (!stat.isFIFO() || stat.uid !== process.getuid?.()) {
    closeSync(pipe);
    throw new Error(`${path} is in the way: the launcher's pipe has to be there`);
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
