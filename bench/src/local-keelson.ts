import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type KeelsonProcess, startKeelson, upArguments } from "keelson/testing";

/** A `keelson up` of its own in a folder that goes with it. */
export interface LocalKeelson {
  readonly dir: string;
  readonly kubeconfig: string;
  readonly process: KeelsonProcess;
  /** From the start of the process to its line `ready`. */
  readonly readyMs: number;
  stop(): Promise<void>;
}

/** Starts `keelson up` in `dir` (default: a new one), with further flags, and waits until it is ready. */
export async function startLocalKeelson(
  dir: string = mkdtempSync(join(tmpdir(), "keelson-bench-")),
  ...flags: readonly string[]
): Promise<LocalKeelson> {
  const started = performance.now();
  const keelson = startKeelson(upArguments(dir, ...flags));
  await keelson.printed(/^ready$/m);
  const readyMs = performance.now() - started;
  return {
    dir,
    kubeconfig: join(dir, "keelson", "kubeconfig"),
    process: keelson,
    readyMs,
    async stop() {
      await keelson.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
