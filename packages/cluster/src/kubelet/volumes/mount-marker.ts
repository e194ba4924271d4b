import { stat, watch } from "node:fs/promises";
import { dirname } from "node:path";
import type { Program } from "@keelson/execution";

/** Waits until a program with its own mounts has them. Before that, nothing may run alongside it. */
export async function mounted(program: Program): Promise<void> {
  const marker = program.spec.metadata?.["marker"];
  if (marker === undefined) return;
  const ended = program.exited();
  while (program.state.kind === "running" && (await sizeOf(marker)) === 0) {
    const gone = new AbortController();
    try {
      const changes = watch(dirname(marker), { signal: gone.signal })[Symbol.asyncIterator]();
      const changed = changes.next().catch(() => {});
      // Checked again, because it may have been written before the watch was established.
      if ((await sizeOf(marker)) === 0) await Promise.race([changed, ended]);
    } finally {
      gone.abort();
    }
  }
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}
