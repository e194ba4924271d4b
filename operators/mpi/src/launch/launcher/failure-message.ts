import { constants } from "node:os";
import type { FailedRank } from "./launch-events.ts";

const maxDetailLength = 400;
const maxSignalNumber = 64;
/** Exit codes of MPICH's daemon without a connection to mpiexec: when it writes and when it reads. */
const lostMpiexecExitCodes: ReadonlySet<number> = new Set([5, 7]);

/**
 * Lines that mpiexec, its daemons, crash handlers and the launcher write around the program's own output. Those of Open MPI's components
 * (`[HOST][[JOB,RUN],RANK][FILE:LINE:FUNCTION]`) are of ranks that have lost the failed one.
 */
const noise =
  /^(?:-{10,}|={4,}|\[[^\]]*\]\[\[\d+,\d+\],\d+\]\[|\[(?:mpiexec|proxy:)[^\]]*\]|\[[\w.-]+:\d+(?::\d+)*\]|keelson mpi |keelson-rank: |\s*\d+\s+\S*\(|$)|^(?:Segmentation fault|Aborted|Killed|Terminated|Bus error|Illegal instruction|Floating point exception)(?: \(core dumped\))?$|^(?:Primary job|a non-zero exit code|YOUR APPLICATION|This typically refers|Please see the FAQ)/;

/**
 * Describes the first rank that failed, for the status of the job, such as
 * `rank 1 on worker 1 failed: segmentation fault (signal 11): input.dat: no such file`.
 */
export function describeRankFailure(failed: FailedRank, program: string, stderr: string): string {
  const subject = `rank ${failed.rank} on worker ${failed.worker} failed`;
  const last = lastProgramLine(stderr);
  const how = abortCode(stderr, failed.rank) === failed.exitCode ? `called MPI_Abort with ${failed.exitCode}` : undefined;
  return `${subject}: ${how ?? describeExit(failed.exitCode, program)}${last === undefined ? "" : `: ${last}`}`;
}

/** The code with which a rank called MPI_Abort, by the message of Open MPI; undefined if it did not. */
function abortCode(stderr: string, rank: number): number | undefined {
  const abort = /^MPI_ABORT was invoked on rank (\d+) in communicator .*\n\s*with errorcode (-?\d+)\.$/m.exec(stderr);
  return abort !== null && Number(abort[1]) === rank ? Number(abort[2]) & 0xff : undefined;
}

function describeExit(exitCode: number, program: string): string {
  if (exitCode === 127) return `program ${program} not found (exit code 127)`;
  if (exitCode === 126) return `program ${program} is not executable (exit code 126)`;
  const signal = exitCode > 128 && exitCode <= 128 + maxSignalNumber ? exitCode - 128 : undefined;
  if (signal === undefined) return `exit code ${exitCode}`;
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? "unknown signal";
  return `killed by ${name} (signal ${signal})`;
}

/** Open MPI's report of an abort, which may come before the last lines of the rank that it is about. */
const openMpiAbort = /^-{20,}\nMPI_ABORT was invoked [\s\S]*?^-{20,}\n/m;

/** The last line that the program itself wrote to standard error before mpiexec reported the failure. */
function lastProgramLine(stderr: string): string | undefined {
  const text = stderr.replace(openMpiAbort, "");
  const end = text.search(/^-{20,}$|^\[mpiexec@/m);
  const lines = (end < 0 ? text : text.slice(0, end)).split("\n").filter((line) => !noise.test(line));
  return lines.at(-1)?.trim().slice(0, maxDetailLength) || undefined;
}

/** The rank that called MPI_Abort, by the message of MPICH; undefined if none did. */
export function abortMessage(stderr: string): string | undefined {
  const abort = /^Abort\(\d+\) on node \d+ \(rank (\d+) in comm \d+\): (.*)$/m.exec(stderr);
  return abort === null ? undefined : `rank ${abort[1]} called MPI_Abort: ${abort[2]}`.slice(0, maxDetailLength);
}

/**
 * The failure of a run whose mpiexec ended before its daemons, which then lost it. MPICH's mpiexec exits as soon as it receives a rank's
 * MPI_Abort, without the rank's standard error if that has not arrived yet. Nothing else shows the abort, so the message says that it is
 * only probable. `exitCode` is mpiexec's, `daemonExitCodes` are those of the
 * daemons that failed. Undefined if something else explains the failure.
 */
export function lostAbortMessage(exitCode: number, daemonExitCodes: readonly number[], stderr: string): string | undefined {
  const haveLostMpiexec = daemonExitCodes.length > 0 && daemonExitCodes.every((code) => lostMpiexecExitCodes.has(code));
  // An mpiexec that fails itself says so, or was killed.
  if (!haveLostMpiexec || exitCode === 0 || exitCode > 128 || /^\[mpiexec@/m.test(stderr)) return undefined;
  return `mpiexec exited with ${exitCode} before its daemons, without a message: a rank probably called MPI_Abort with ${exitCode}`;
}

/**
 * What mpiexec said when it failed before a rank did, in one line; undefined if it said nothing. Open MPI writes a block between dashed
 * lines, MPICH one line per function on the stack, the first of which is the cause.
 */
export function mpiexecMessage(stderr: string): string | undefined {
  const abort = abortMessage(stderr);
  if (abort !== undefined) return abort;
  const block = /^-{20,}\n([\s\S]*?)^-{20,}$/m.exec(stderr)?.[1];
  const stack = /^\[proxy:[^\]]*\] (?:\[[^\]]*\] )*\w+ \([^)]*\): (.*)$/m.exec(stderr)?.[1];
  const text = block ?? stack;
  return text?.replaceAll(/\s+/g, " ").trim().slice(0, maxDetailLength) || undefined;
}

/**
 * mpiexec's standard error without the warnings of Open MPI about agents that it could not move to their own process group, because
 * they had already moved themselves. The warning is harmless and occurs in successful runs.
 */
export function withoutAgentRaces(stderr: string): string {
  return stderr.replaceAll(/^\[[^\]\n]*\] plm:rsh: Warning: setpgid\([^\n]*\n/gm, "");
}
