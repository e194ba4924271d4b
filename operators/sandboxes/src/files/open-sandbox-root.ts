import { type Clock, sleep } from "@keelson/api-machinery/time";
import { openProgramRoot, type Program, type ProgramRoot } from "@keelson/execution";
import { FileError } from "./file-operations.ts";

/** Attempts, after 1, 2, 4 ... ms, to open the root of a program that is starting. */
const maxOpenPauseMs = 2048;

/** Opens the root of a sandbox's program, which may still be starting. **Errors**: {@link FileError}, and those of `openProgramRoot`. */
export async function openSandboxRoot(program: Program, clock: Clock): Promise<ProgramRoot> {
  for (let pauseMs = 1; pauseMs <= maxOpenPauseMs; pauseMs *= 2) {
    const root = openProgramRoot(program);
    if (root !== undefined) return root;
    await sleep(clock, pauseMs);
  }
  throw new FileError("Failed", "the sandbox has not entered its root yet; retry");
}
