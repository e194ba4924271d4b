import { closeSync, lstatSync } from "node:fs";
import { statfs } from "node:fs/promises";
import type { Clock } from "@keelson/api-machinery/time";
import { type Driver, ExecutionError, openProgramRoot, type Program } from "@keelson/execution";
import { sandboxIdPattern } from "../api/names.ts";
import type { SandboxUsage } from "../protocol/protocol.ts";

/** Directories with the disk limit. */
const limitedDirectories = ["work", "tmp"];

/** Callers share a measurement for this long: it reads the files of every process. */
const sharedMs = 1000;

/** Measures what the sandboxes of a driver use. */
export class SandboxUsages {
  readonly #driver: Pick<Driver, "list">;
  readonly #clock: Clock;
  #last: { readonly atMs: number; readonly usages: Promise<readonly SandboxUsage[]> } | undefined;

  constructor(driver: Pick<Driver, "list">, clock: Clock) {
    this.#driver = driver;
    this.#clock = clock;
  }

  /** What running sandboxes use now, or at most a second ago. */
  measure(): Promise<readonly SandboxUsage[]> {
    const now = this.#clock.monotonic();
    if (this.#last === undefined || now - this.#last.atMs >= sharedMs) this.#last = { atMs: now, usages: this.#measureAll() };
    return this.#last.usages;
  }

  async #measureAll(): Promise<readonly SandboxUsage[]> {
    const running = this.#driver.list().filter(({ id, state }) => sandboxIdPattern.test(id) && state.kind === "running");
    const usages = await Promise.all(running.map(usageOf));
    return usages.filter((usage) => usage !== undefined);
  }
}

/** Undefined if the program has exited. */
async function usageOf(program: Program): Promise<SandboxUsage | undefined> {
  try {
    const { cpuMillis, memoryBytes, pids } = await program.stats();
    const { applied } = program.limits;
    const disk = applied.diskBytes === undefined ? undefined : await diskOf(program);
    return {
      sandboxId: program.id,
      ...{ cpuMillis, memoryBytes, pids },
      ...(disk !== undefined && { diskBytes: disk.usedBytes }),
      limits: {
        ...(applied.cpuMillis !== undefined && { cpuMillis: applied.cpuMillis }),
        ...(applied.memoryBytes !== undefined && { memoryBytes: applied.memoryBytes }),
        ...(applied.pids !== undefined && { pids: applied.pids }),
        ...(disk !== undefined && { diskBytes: disk.sizeBytes }),
      },
    };
  } catch (error) {
    if (error instanceof ExecutionError) return undefined;
    throw error;
  }
}

/** Undefined while the program enters its root, and for one whose files are not accessible. */
async function diskOf(program: Program): Promise<{ readonly usedBytes: number; readonly sizeBytes: number } | undefined> {
  const root = openRoot(program);
  if (root === undefined) return undefined;
  try {
    let [usedBytes, sizeBytes] = [0, 0];
    for (const name of limitedDirectories) {
      // A mount point, which the program cannot replace.
      const path = `/proc/self/fd/${root.fd}/${name}`;
      if (!lstatSync(path).isDirectory()) continue;
      const { blocks, bfree, bsize } = await statfs(path);
      usedBytes += (blocks - bfree) * bsize;
      sizeBytes += blocks * bsize;
    }
    return { usedBytes, sizeBytes };
  } finally {
    closeSync(root.fd);
  }
}

function openRoot(program: Program): ReturnType<typeof openProgramRoot> {
  try {
    return openProgramRoot(program);
  } catch (error) {
    if (error instanceof ExecutionError && error.code === "Unsupported") return undefined;
    throw error;
  }
}
