import { readFileSync } from "node:fs";
import { wasOomKilled } from "../cgroup/cgroup.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import { neverRan } from "../process/launcher.ts";
import type { Ending, LaunchRequest } from "../process/launcher.ts";
import { lastWords } from "../program/program-place.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { parseExitFile } from "./shim.ts";
import type { ExitFile } from "./shim.ts";

/** Why a program could not be executed, where what wraps it ended with `exitCode` and that was the cause. */
export type StartProblem = (
  request: LaunchRequest,
  exitCode: number,
) => { readonly exitCode: number; readonly message: string } | undefined;

/** What a shim has written so far; as an empty file where there is none. */
export function readExit(folder: ProgramFolder): ExitFile {
  try {
    return parseExitFile(readFileSync(folder.exit, "latin1"));
  } catch {
    return parseExitFile("");
  }
}

/** How a program whose shim has ended came to its end. `lostMessage` is told where the shim could not say. */
export function endingOf(
  request: LaunchRequest,
  options: {
    readonly lostMessage: string;
    readonly startProblem: StartProblem | undefined;
    readonly hierarchies: readonly CgroupHierarchy[];
  },
): Ending {
  const { folder, spec } = request;
  const { exitCode, ...exit } = readExit(folder);
  if (exit.unreleased) return { kind: "lost", message: neverRan };
  if (exitCode === undefined) return { kind: "lost", message: options.lostMessage };
  const failed = (code: number, why: string): Ending => ({
    kind: "start-failed",
    exitCode: code,
    message: `The program could not be executed: ${why}`,
  });
  if (exit.execFailed) return failed(exitCode, lastWords(folder, spec).replace(/^.*?: \d+: (?:exec: )?/, ""));
  const problem = options.startProblem?.(request, exitCode);
  if (problem !== undefined) return failed(problem.exitCode, problem.message);
  return { kind: "exited", exitCode, oomKilled: exitCode === 137 && wasOomKilled(options.hierarchies, folder.tag) };
}
