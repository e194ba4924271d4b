import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

/** Options of {@link makeProgram}. */
export interface MakeOptions {
  /** Directory of the project. */
  readonly folder: string;
  /** Path of the makefile, relative to the directory. Default: `Makefile`, or `src/Makefile`. */
  readonly makefile: string | undefined;
  /** Further arguments of `make`. */
  readonly args: readonly string[];
  /** Name of the program that `make` builds, in the directory of the makefile or of the project. */
  readonly program: string;
  readonly signal: AbortSignal;
}

/**
 * Runs `make` in the directory of a project's makefile, with the terminal of this process, and returns the path of the program.
 *
 * **Errors**: one that says what is missing, or the exit status of `make`.
 */
export async function makeProgram({ folder, makefile, args, program, signal }: MakeOptions): Promise<string> {
  const candidates = makefile === undefined ? ["Makefile", "src/Makefile"] : [makefile];
  const path = candidates.map((each) => resolve(folder, each)).find((each) => existsSync(each));
  if (path === undefined) throw new Error(`${candidates.join(" or ")} not found in ${folder}; name it with --file`);
  const where = dirname(path);
  // Standard output is that of the command, which prints its result there.
  const make = spawn("make", ["-f", basename(path), ...args], { cwd: where, stdio: ["ignore", 2, 2], signal });
  const code = await new Promise<number | null>((done, fail) => make.once("error", fail).once("close", done));
  if (code !== 0) throw new Error(`make exited with ${code}`);
  const found = [join(where, program), resolve(folder, program)].find((each) => existsSync(each));
  if (found === undefined) throw new Error(`make built no ${program} in ${where}; name the program with --program`);
  return found;
}
