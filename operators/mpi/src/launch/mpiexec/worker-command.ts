/** Parameter of Open MPI with the program that replaces `ssh` in the launcher. */
const agentParameter = "plm_rsh_agent";

/** Exists in every image: a worker's command is started by a script of it. */
const anyProgram = "/bin/sh";

/**
 * The command of a worker. Open MPI passes the path of the launcher's agent on to its daemons, which require the file to exist although
 * they never start it. A worker in another Pod does not have it, so another program takes its place.
 */
export function workerCommand(words: readonly string[], exists: (path: string) => boolean): readonly string[] {
  return words.map((word, index) => (words[index - 1] === agentParameter && !exists(word) ? anyProgram : word));
}

/** The command of a session's daemon, with the address of the launcher in place of its name: `--control-port NAME:PORT` of MPICH. */
export function withLauncherAddress(words: readonly string[], address: string): readonly string[] {
  return words.map((word, index) => (words[index - 1] === "--control-port" ? word.replace(/^[^:]*(?=:\d+$)/, address) : word));
}
