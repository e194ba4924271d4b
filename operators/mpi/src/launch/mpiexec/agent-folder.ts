import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MpiError } from "../mpi-error.ts";

/*
 * mpiexec starts a program instead of ssh ("the agent") once per host, with the host's name and the line to run there. Ours is a short
 * shell script, because a Node process per rank would take longer than the launch itself. It writes the line to a file and waits at a
 * pipe for its exit status. The launcher keeps the pipes open. If it dies, they close, and the agents end together with mpiexec, which
 * would otherwise keep running.
 */
const script = `#!/bin/sh
folder=\${0%/*}
while [ "\${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec 3<"$folder/$host.status" || exit 255
printf '%s' "$*" >"$folder/$host.part" && mv "$folder/$host.part" "$folder/$host.line" || exit 255
read -r status <&3 || { kill -KILL "$PPID"; status=255; }
exit "$status"
`;

/** The directory where agents write their lines. */
export interface AgentFolder {
  /** Path of the program that mpiexec calls instead of ssh. */
  readonly agent: string;
  /** Directory for temporary files of mpiexec and MPI. */
  readonly temporary: string;
  /** Ends the agent of a host. */
  endAgent(host: string, exitCode: number): void;
  /** Ends the remaining agents and removes the directory. */
  close(): void;
}

/**
 * Creates the directory. `onLine` is called for every line that an agent writes.
 *
 * **Errors**: {@link MpiError} `PipeFailed`.
 */
export function createAgentFolder(hosts: readonly string[], onLine: (host: string, text: string) => void): AgentFolder {
  const folder = mkdtempSync(join(tmpdir(), "kmpi-"));
  const agent = join(folder, "agent");
  writeFileSync(agent, script);
  chmodSync(agent, 0o700);
  const pipes = new Map<string, number>();
  const paths = hosts.map((host) => join(folder, `${host}.status`));
  const mkfifo = spawnSync("mkfifo", ["-m", "600", ...paths], { encoding: "utf8" });
  if (mkfifo.status !== 0) throw new MpiError("PipeFailed", `mkfifo: ${mkfifo.error?.message ?? mkfifo.stderr.trim()}`);
  // Opened for reading and writing, so that opening does not block.
  for (const host of hosts) pipes.set(host, openSync(join(folder, `${host}.status`), constants.O_RDWR | constants.O_NONBLOCK));
  const seen = new Set<string>();
  const watcher = watch(folder, (_, name) => {
    if (name === null || !name.endsWith(".line")) return;
    const host = name.slice(0, -".line".length);
    if (seen.has(host)) return;
    let text: string;
    try {
      text = readFileSync(join(folder, name), "utf8");
    } catch {
      return; // The directory is being removed.
    }
    seen.add(host);
    onLine(host, text);
  });
  const endAgent = (host: string, exitCode: number): void => {
    const pipe = pipes.get(host);
    if (pipe !== undefined) writeSync(pipe, `${Math.min(exitCode, 255)}\n`);
  };
  return {
    agent,
    temporary: folder,
    endAgent,
    close() {
      watcher.close();
      for (const [host, pipe] of pipes) {
        if (seen.has(host)) writeSync(pipe, "255\n");
        closeSync(pipe);
      }
      pipes.clear();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
