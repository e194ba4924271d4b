import { join } from "node:path";
import { type KeelsonProcess, startKeelson, upArguments } from "keelson/testing";
import { createFolder, removeFolder } from "./folder.ts";

/** A `keelson up` of a benchmark. */
export interface LocalKeelson {
  readonly dir: string;
  readonly kubeconfig: string;
  readonly process: KeelsonProcess;
  /** From the start of the process until it printed `ready`. */
  readonly readyMs: number;
  /** Stops it, kills the programs that it has started, and removes the directory. */
  stop(): Promise<void>;
}

/** Starts `keelson up` in `dir` (default: a new directory) with further flags, and waits until it is ready. */
export async function startLocalKeelson(dir: string = createFolder(), ...flags: readonly string[]): Promise<LocalKeelson> {
  const startedAt = performance.now();
  const keelson = startKeelson(upArguments(dir, ...flags));
  await keelson.printed(/^ready$/m);
  const readyMs = performance.now() - startedAt;
  return {
    dir,
    kubeconfig: join(dir, "keelson", "kubeconfig"),
    process: keelson,
    readyMs,
    async stop() {
      await keelson.stop();
      removeFolder(dir);
    },
  };
}
