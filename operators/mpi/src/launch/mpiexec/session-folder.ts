import {
  chmodSync,
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  watch,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { shellWord } from "../session/shell-word.ts";

/*
 * The agent of a session takes the place of ssh, also by its name. It writes the host and the command to a file, and waits at a pipe for
 * the exit status. If the launcher dies, the pipe closes, and the agent ends.
 */
const script = `#!/bin/sh
folder=\${0%/*}
while :; do
  case $1 in
    -[BbcDEeFIiJLlmOopQRSWw]) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=$1
shift
rm -f "$folder/$$.status"
mkfifo -m 600 "$folder/$$.status" || exit 255
printf '%s\\n%s' "$host" "$*" >"$folder/$$.part" && mv "$folder/$$.part" "$folder/$$.line" || exit 255
read -r status <"$folder/$$.status" || status=255
exit "$status"
`;

/** The directory of a session. */
export interface SessionFolder {
  /** Path of the program that mpiexec calls instead of ssh. */
  readonly agent: string;
  /** Path of a hostfile with the given text. */
  readonly hostfile: string;
  /** The directory itself, for temporary files and for a PATH on which `ssh` is the agent. */
  readonly path: string;
  /** Ends the agent of a call. */
  endCall(call: number, exitCode: number): void;
  /** Ends the remaining agents and removes the directory. */
  close(): void;
}

/**
 * Creates the directory. `mpiexec`: the program that `mpiexec` and `mpirun` are on the directory's PATH; undefined if the rest of the PATH decides.
 * `onCall` is called for every call of an agent, with its process id.
 */
export function createSessionFolder(
  hostfileText: string,
  mpiexec: string | undefined,
  onCall: (call: number, host: string, text: string) => void,
): SessionFolder {
  const path = mkdtempSync(join(tmpdir(), "kmpi-"));
  const agent = join(path, "agent");
  writeFileSync(agent, script);
  chmodSync(agent, 0o700);
  symlinkSync("agent", join(path, "ssh"));
  // Scripts instead of links: MPICH's mpiexec looks for its daemon in the directory that it was started from.
  if (mpiexec !== undefined)
    for (const name of ["mpiexec", "mpirun"])
      writeFileSync(join(path, name), `#!/bin/sh\nexec ${shellWord(mpiexec)} "$@"\n`, { mode: 0o700 });
  const hostfile = join(path, "hostfile");
  writeFileSync(hostfile, hostfileText);
  const pipes = new Map<number, number>();
  const watcher = watch(path, (_, name) => {
    const call = Number(/^(\d+)\.line$/.exec(name ?? "")?.[1] ?? Number.NaN);
    if (Number.isNaN(call)) return;
    try {
      const [host = "", ...text] = readFileSync(join(path, `${call}.line`), "utf8").split("\n");
      // Removed, so that a later agent can have the same process id.
      rmSync(join(path, `${call}.line`));
      const old = pipes.get(call);
      if (old !== undefined) closeSync(old);
      pipes.set(call, openSync(join(path, `${call}.status`), constants.O_RDWR | constants.O_NONBLOCK));
      onCall(call, host, text.join("\n"));
    } catch {
      // The file was handled by an earlier event, or the directory is being removed.
    }
  });
  const endCall = (call: number, exitCode: number): void => {
    // The pipe stays open: it would lose its content if its agent has not opened it yet.
    const pipe = pipes.get(call);
    if (pipe !== undefined) writeSync(pipe, `${Math.min(exitCode, 255)}\n`);
  };
  return {
    ...{ agent, hostfile, path, endCall },
    close() {
      watcher.close();
      for (const [call, pipe] of pipes) {
        endCall(call, 255);
        closeSync(pipe);
      }
      pipes.clear();
      rmSync(path, { recursive: true, force: true });
    },
  };
}
