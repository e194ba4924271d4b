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

/*
 * mpiexec starts a program in ssh's place ("the agent") once a host, with the host's name and the words to run there. Ours is
 * a shell script of a few lines, as a process of Node for every rank would take longer than the launch itself. It leaves the
 * line in a file and waits at a pipe for the status that it shall end with. The launcher holds the pipes open, so that they
 * close when it dies: the agents end then, and mpiexec with them, which would stay behind otherwise.
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

/** The place where agents leave their lines. */
export interface AgentFolder {
  /** What mpiexec is to call in ssh's place. */
  readonly agent: string;
  /** A folder that mpiexec and MPI can have for temporary files. */
  readonly temporary: string;
  /** Lets the agent of a host end. */
  endAgent(host: string, exitCode: number): void;
  /** Lets the agents end that have not, and removes the folder. */
  close(): void;
}

/** Makes the place. `onLine` is called for every line that an agent leaves. */
export function createAgentFolder(hosts: readonly string[], onLine: (host: string, text: string) => void): AgentFolder {
  const folder = mkdtempSync(join(tmpdir(), "kmpi-"));
  const agent = join(folder, "agent");
  writeFileSync(agent, script);
  chmodSync(agent, 0o700);
  const pipes = new Map<string, number>();
  const paths = hosts.map((host) => join(folder, `${host}.status`));
  const made = spawnSync("mkfifo", ["-m", "600", ...paths], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(`mkfifo: ${made.error?.message ?? made.stderr.trim()}`);
  // Opened both ways, so that opening waits for nobody.
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
      return; // The folder is being removed.
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
