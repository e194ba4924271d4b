import { maxExitCode } from "./exit-codes.ts";
import { shellWord } from "./session/shell-word.ts";

/*
 * mpiexec starts every rank through a short shell script, which records the rank's exit status in a file. mpiexec itself cannot be relied on
 * for it: MPICH's does not report the exit code of a rank on another host, may blame an innocent proxy, and waits forever for the other
 * ranks when one exits without MPI_Finalize.
 *
 * The script stays in the rank's process group, which both MPIs signal as a whole. It survives SIGTERM, which MPICH sends as soon as a rank
 * disappears, but a rank that ends by it records nothing: mpiexec stopped it. The script ends in the same way as the rank: with its exit
 * code, or by its signal.
 *
 * Only rank 0 reads the standard input. MPICH leaves that of the other ranks open, so that programs that read it never end.
 */

/** Variable with the path of the file that ranks append to. */
const fileVariable = "KEELSON_MPI_RANK_FILE";
/** Variable with the script, so that `ps` shows a rank's command and not the script. */
const scriptVariable = "KEELSON_MPI_RANK";

const script = `keelson_file=$${fileVariable}
unset ${fileVariable} ${scriptVariable}
[ "\${PMI_RANK:-0}" = 0 ] || exec </dev/null
keelson_stopped=
trap 'keelson_stopped=1' TERM
"$@"
keelson_code=$?
if [ -z "$keelson_stopped" ] || [ "$keelson_code" -ne 143 ]; then
  echo "\${PMI_RANK:-\${OMPI_COMM_WORLD_RANK:--}} $keelson_code" >>"$keelson_file"
fi
trap - TERM
if [ "$keelson_code" -gt 128 ] && [ "$keelson_code" -le 192 ]; then
  ulimit -c 0
  kill -$((keelson_code - 128)) $$
fi
exit "$keelson_code"
`;

/** Variables that a worker sets for its ranks, which record their exit status in `file`. The script removes them. */
export function rankEnvironment(file: string): Readonly<Record<string, string>> {
  return { [fileVariable]: file, [scriptVariable]: script };
}

/** Argument after which mpiexec expects its options for a further program, so it must not be an argument of ours. */
const programSeparator = ":";

/** The command that runs a rank's program and records its exit status. It needs the {@link rankEnvironment}. */
export function wrapRank(command: readonly string[]): readonly string[] {
  const run = `eval "$${scriptVariable}"`;
  if (!command.includes(programSeparator)) return ["/bin/sh", "-c", run, "keelson-rank", ...command];
  return ["/bin/sh", "-c", `set -- ${command.map(shellWord).join(" ")}; ${run}`, "keelson-rank"];
}

/** The end of a rank's program. */
export interface RankEnd {
  readonly rank: number;
  /** 128 plus the signal number after a signal. */
  readonly exitCode: number;
  /** When it ended, in milliseconds since the epoch, by the worker's clock. */
  readonly at: number;
}

/** Parses the complete lines of a rank file that was last written at `at`. A rank without a known number is that of its worker. */
export function parseRankFile(text: string, worker: number, at: number): readonly RankEnd[] {
  return [...text.matchAll(/^(\d{1,6}|-) (\d{1,3})\n/gm)].map(([, rank = "-", exitCode]) => ({
    rank: rank === "-" ? worker : Number(rank),
    // The program could have written to the file, too.
    exitCode: Math.min(Number(exitCode), maxExitCode),
    at,
  }));
}
